//! From a product name to family and size, and from a family to names
//! (`facts/runtime/instance.tsv`, `facts/runtime/instance_parse_examples.tsv`).

use neuron_abi::{Arch, Family, Size};
use strum::IntoEnumIterator;

/// Start of a product name that is no `family.size` and still means Trn2; nine characters decide.
const TRN2_BOARD: &str = "EPIC-TGH7";

/// Product spellings that differ from the name of the family.
const SPELLINGS: [(&str, Family); 4] = [
    ("trn2es", Family::Trn2e),
    ("trn2-ac", Family::Trn2ac),
    ("trn2u-ac", Family::Trn2uac),
    ("trn3pd98", Family::Trn3pds98),
];

/// Family of a whole token; `Unknown` when there is none.
pub fn family(token: &str) -> Family {
    let named = Family::iter().find(|f| f.to_string() == token);
    let spelled = || SPELLINGS.iter().find(|(t, _)| *t == token).map(|&(_, f)| f);
    named.or_else(spelled).unwrap_or(Family::Unknown)
}

/// Size of a whole token; `Unknown` when there is none.
pub fn size(token: &str) -> Size {
    Size::iter().find(|s| s.to_string() == token).unwrap_or(Size::Unknown)
}

/// Family and size of a product name on silicon of generation `arch`.
pub fn identify(product: &str, arch: Arch) -> (Family, Size) {
    // As strtok splits: empty pieces do not count, and neither does anything behind the second.
    let mut tokens = product.split('.').filter(|t| !t.is_empty());
    let mut family = family(tokens.next().unwrap_or(""));
    let mut size = size(tokens.next().unwrap_or(""));
    if product.starts_with(TRN2_BOARD) {
        family = Family::Trn2;
    }
    if arch == Arch::Mariana {
        if family == Family::Unknown {
            family = Family::Trn3;
        }
        if size == Size::Unknown {
            size = Size::X2;
        }
    }
    (family, size)
}

/// Architecture name of a family: the name compilers take as their target.
pub fn arch_name(family: Family) -> &'static str {
    use Family::*;
    match family {
        Unknown => "unknown",
        Inf1 => "inf1",
        Trn1 | Trn1n => "trn1",
        Inf2 | Inf2e => "inf2",
        Trn2 | Trn2n | Trn2p | Trn2u | Trn2e | Trn2eu | Trn2ac | Trn2uac => "trn2",
        Trn3 | Trn3pds98 => "trn3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
        text.lines().filter(|l| !l.starts_with('#')).skip(1).map(|l| l.split('\t').collect())
    }

    /// A082 A091: both name tables, token by token, and the enumerators behind the numbers.
    #[test]
    fn every_token_of_the_facts_gives_its_number() {
        let mut seen = 0;
        for row in rows(include_str!("../../tests/data/device/instance.tsv")) {
            let number: u32 = row[1].parse().unwrap();
            for token in row[3].trim_end_matches(')').split(" (or ").filter(|t| !t.starts_with('(')) {
                let ours = if row[0] == "family" { family(token) as u32 } else { size(token) as u32 };
                assert_eq!(ours, number, "{token}");
                seen += 1;
            }
            if row[0] == "family" {
                let enumerator = row[2].trim_start_matches("NRT_INSTANCE_").to_lowercase();
                assert_eq!(Family::from_repr(number).unwrap().to_string(), enumerator);
            }
        }
        assert_eq!(seen, 15 + 2 + 9);
        assert_eq!((Family::iter().count(), Size::iter().count()), (16, 10));
        assert_eq!((Family::Trn2 as u32, Family::Trn3 as u32), (5, 14));
    }

    #[test]
    fn every_example_of_the_facts_is_read_as_listed() {
        let mut seen = 0;
        for row in rows(include_str!("../../tests/data/device/instance_parse_examples.tsv")) {
            let Ok(number) = row[1].parse::<u32>() else { continue };
            let arch = Arch::from_repr(row[3].parse().unwrap()).unwrap();
            let (family, size) = identify(row[0], arch);
            assert_eq!(family as u32, number, "{}", row[0]);
            if let Ok(number) = row[2].parse::<u32>() {
                assert_eq!(size as u32, number, "{}", row[0]);
            }
            seen += 1;
        }
        assert_eq!(seen, 18);
    }

    /// A083 A090: nine characters, on any arch.
    #[test]
    fn the_trn2_board_is_family_5_by_nine_characters() {
        for arch in [Arch::Sunda, Arch::Cayman, Arch::Mariana] {
            for name in ["EPIC-TGH7", "EPIC-TGH7xyz", "EPIC-TGH7.48xlarge", "EPIC-TGH7-A.B"] {
                assert_eq!(identify(name, arch).0, Family::Trn2, "{name}");
            }
        }
        for name in ["EPIC-TGH6", "EPIC-TGH", "epic-tgh7", "xEPIC-TGH7", " EPIC-TGH7"] {
            assert_eq!(identify(name, Arch::Cayman).0, Family::Unknown, "{name}");
        }
        assert_eq!(u64::from_le_bytes(*b"EPIC-TGH"), 0x4847542D43495045);
        assert_eq!(&TRN2_BOARD.as_bytes()[..8], b"EPIC-TGH");
        assert_eq!(identify("EPIC-TGH7.48xlarge", Arch::Cayman).1, Size::X48);
        assert_eq!(identify("EPIC-TGH7xyz", Arch::Cayman).1, Size::Unknown);
    }

    /// A084 A085: only on arch 4.
    #[test]
    fn unknown_names_are_trn3_2xlarge_on_arch_4_only() {
        for name in ["m5.metal", "", "....", "trn3x", "48xlarge", "trn9.99xlarge"] {
            assert_eq!(identify(name, Arch::Mariana), (Family::Trn3, Size::X2), "{name}");
            assert_eq!(identify(name, Arch::Cayman), (Family::Unknown, Size::Unknown), "{name}");
        }
        assert_eq!(identify("m5.24xlarge", Arch::Mariana), (Family::Trn3, Size::X24));
        assert_eq!(identify("trn2.metal", Arch::Mariana), (Family::Trn2, Size::X2));
    }

    #[test]
    fn arch_names_fit_with_their_terminator() {
        for f in Family::iter() {
            assert!((1..=15).contains(&arch_name(f).len()), "{f}");
            assert!(f == Family::Unknown || f.to_string().starts_with(arch_name(f)), "{f}");
        }
    }

    proptest! {
        /// Oracle: a hand-written walk over the bytes, comparing whole tokens only.
        #[test]
        fn any_name_is_split_at_dots_and_compared_whole(name in "([a-z0-9]{0,3}|trn2|trn1n|inf2|48xlarge|2xlarge|\\.){0,6}") {
            let mut tokens = vec![String::new()];
            for c in name.chars() {
                if c != '.' {
                    tokens.last_mut().unwrap().push(c);
                } else if !tokens.last().unwrap().is_empty() {
                    tokens.push(String::new());
                }
            }
            let token = |i: usize| tokens.get(i).map_or("", String::as_str);
            let number = |kind: &str, token: &str, other: u32| {
                rows(include_str!("../../tests/data/device/instance.tsv"))
                    .filter(|r| r[0] == kind)
                    .find(|r| r[3].trim_end_matches(')').split(" (or ").any(|t| t == token))
                    .map_or(other, |r| r[1].parse().unwrap())
            };
            let (family, size) = identify(&name, Arch::Cayman);
            prop_assert_eq!(family as u32, number("family", token(0), 0));
            prop_assert_eq!(size as u32, number("size", token(1), 9));
        }
    }
}
