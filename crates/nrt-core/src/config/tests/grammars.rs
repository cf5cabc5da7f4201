//! Property tests of each grammar against an oracle that shares no code with it.

use super::*;
use crate::config::{
    grammar::{AlgMask, CpuSet},
    parse::{Ints, Value},
    record::Histogram,
};
use proptest::prelude::*;

/// A066, A067, A068: the range list as a state machine over single characters.
fn range_oracle(text: &str) -> Option<Vec<i32>> {
    let mut out = Vec::new();
    for item in text.split(',') {
        let mut numbers: Vec<i128> = Vec::new();
        // 0 before a number, 1 in it, 2 after it
        let mut state = 0;
        let mut signed = false;
        for c in item.chars() {
            match (state, c) {
                (0 | 2, ' ' | '\t' | '\n' | '\x0c' | '\r') if !signed => {}
                (1, ' ' | '\t' | '\n' | '\x0c' | '\r') => state = 2,
                (0, '+') if !signed => signed = true,
                (0, '0'..='9') => {
                    numbers.push(c.to_digit(10)?.into());
                    (state, signed) = (1, false);
                }
                (1, '0'..='9') => {
                    let last = numbers.last_mut()?;
                    *last = last.saturating_mul(10).saturating_add(c.to_digit(10)?.into());
                }
                (1 | 2, '-') if numbers.len() == 1 => state = 0,
                _ => return None,
            }
        }
        if state == 0 || numbers.iter().any(|number| *number > 2_147_483_647) {
            return None;
        }
        let (first, last) = (numbers[0], *numbers.last()?);
        if first > last || last - first > 65536 {
            return None;
        }
        out.extend((first..=last).map(|number| number as i32));
        if out.len() > 65536 {
            return None;
        }
    }
    Some(out)
}

fn ints(text: &str) -> Option<Vec<i32>> {
    Ints::parse(text.as_bytes()).ok().map(|list| list.0)
}

proptest! {
    /// A066, A068: any text of the alphabet, mostly wrong ones.
    #[test]
    fn range_lists_agree_with_the_oracle_on_any_text(text in "[0-9,\\- +x]{0,14}") {
        prop_assert_eq!(ints(&text), range_oracle(&text), "{:?}", text);
    }

    /// A066: well-formed lists, with spaces.
    #[test]
    fn range_lists_agree_with_the_oracle_on_good_text(
        items in proptest::collection::vec((0..5000u32, 0..40u32, " ?", any::<bool>()), 1..20)
    ) {
        let text: Vec<String> = items
            .iter()
            .map(|(first, more, space, range)| {
                if *range { format!("{first}{space}-{}", first + more) } else { format!("{space}{first}{space}") }
            })
            .collect();
        let want: Vec<i32> = items
            .iter()
            .flat_map(|(first, more, _, range)| *first..=first + if *range { *more } else { 0 })
            .map(|number| number as i32)
            .collect();
        let text = text.join(",");
        prop_assert_eq!(range_oracle(&text), Some(want.clone()));
        prop_assert_eq!(ints(&text), Some(want));
    }

    /// A067: numbers near every limit.
    #[test]
    fn numbers_of_a_list_are_checked_at_the_limits(base in prop_oneof![Just(i128::from(i32::MAX)), Just(i128::from(u32::MAX)), Just(i128::from(i64::MAX)), Just(i128::from(u64::MAX))], delta in -3i128..=3) {
        let text = (base + delta).to_string();
        prop_assert_eq!(ints(&text), (base + delta <= i128::from(i32::MAX)).then(|| vec![(base + delta) as i32]));
    }

    #[test]
    fn plain_numbers_agree_with_the_oracle(text in "[ +\\-]{0,2}(0[xX])?[0-9a-fA-F]{0,12} ?") {
        let trimmed = text.trim_matches(' ');
        let (sign, rest) = match trimmed.as_bytes().first() {
            Some(b'-') => (-1i128, &trimmed[1..]),
            Some(b'+') => (1, &trimmed[1..]),
            _ => (1, trimmed),
        };
        let digits = |text: &str, base: i128| {
            text.bytes().try_fold((0i128, false), |(sum, _), byte| {
                let digit = match byte { b'0'..=b'9' => byte - b'0', b'a'..=b'f' => byte - b'a' + 10, b'A'..=b'F' => byte - b'A' + 10, _ => return None };
                (i128::from(digit) < base).then(|| (sum * base + i128::from(digit), true))
            }).filter(|(_, any)| *any).map(|(sum, _)| sum)
        };
        let magnitude = match rest.as_bytes() {
            [b'0', b'x' | b'X', ..] => digits(&rest[2..], 16),
            _ => digits(rest, 10),
        };
        let value = magnitude.map(|magnitude| sign * magnitude);
        prop_assert_eq!(i64::parse(text.as_bytes()).ok().map(i128::from), value);
        let unsigned = value.filter(|_| sign > 0);
        prop_assert_eq!(u64::parse(text.as_bytes()).ok().map(i128::from), unsigned);
        prop_assert_eq!(u32::parse(text.as_bytes()).ok().map(i128::from), unsigned.filter(|value| *value < 1 << 32));
    }

    #[test]
    fn cpu_sets_hold_exactly_the_named_cpus(cpus in proptest::collection::btree_set(0..1024u32, 1..60)) {
        let text: Vec<String> = cpus.iter().map(u32::to_string).collect();
        let CpuSet(words) = CpuSet::parse(text.join(",").as_bytes()).unwrap();
        let mut want = [0u8; 128];
        for cpu in &cpus {
            want[*cpu as usize / 8] |= 1 << (cpu % 8);
        }
        let got: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        prop_assert_eq!(got, want.to_vec());
        let back = CpuSet::parse(CpuSet(words).show().as_bytes());
        // Long sets are cut for the reader, all others read back as themselves.
        prop_assert!(back == Ok(CpuSet(words)) || cpus.len() > 16);
    }

    #[test]
    fn cpus_past_the_set_and_twice_named_ones_are_refused(cpu in 0..1024u32, past in 1024..100_000u32) {
        for text in [format!("{cpu},{past}"), format!("{cpu},{cpu}")] {
            prop_assert!(CpuSet::parse(text.as_bytes()).is_err());
        }
    }

    /// A128, A130: five tokens, split by spaces or by commas; four and six are refused.
    #[test]
    fn histograms_have_exactly_five_tokens(
        numbers in proptest::array::uniform4(any::<u64>()),
        path in "/[a-z0-9/._-]{0,126}",
        comma in any::<bool>(),
        tokens in 3..7usize,
    ) {
        let mut list: Vec<String> = numbers.iter().map(u64::to_string).collect();
        list.push(path.clone());
        list.resize(tokens, "7".into());
        let parsed = Histogram::parse(list.join(if comma { "," } else { " " }).as_bytes());
        prop_assert_eq!(parsed.is_ok(), tokens == 5);
        if let Ok(record) = parsed {
            let raw = bytes(&record);
            prop_assert_eq!(raw[0], 1);
            for (number, at) in numbers.iter().zip([8, 16, 24, 32]) {
                prop_assert_eq!(&raw[at..at + 8], &number.to_le_bytes());
            }
            prop_assert_eq!(&raw[40..40 + path.len()], path.as_bytes());
            prop_assert!(raw[40 + path.len()..].iter().all(|byte| *byte == 0));
        }
    }

    /// A098: lists of allowed and of excluded algorithms, built bit by bit from the numbers of the facts.
    #[test]
    fn algorithm_lists_agree_with_the_oracle(
        chosen in proptest::collection::vec(0..11usize, 1..8),
        exclude in any::<bool>(),
        lower in any::<bool>(),
        space in " ?",
    ) {
        let names: Vec<(&str, u32)> = rows(ENUMS)
            .filter(|row| row[0] == "enc_alg_type" && row[1] != "INVALID")
            .map(|row| (row[1], row[2].parse().unwrap()))
            .collect();
        let text: Vec<String> = chosen
            .iter()
            .map(|index| format!("{}{}_ALG", if exclude { "^" } else { "" }, names[*index].0))
            .collect();
        let text = text.join(&format!("{space},"));
        let text = if lower { text.to_lowercase() } else { text };
        let mut allowed = [[exclude; 11]; 2];
        for index in &chosen {
            for comm in &mut allowed {
                comm[names[*index].1 as usize] = !exclude;
            }
        }
        let mut want = 0u32;
        for (comm, row) in allowed.iter().enumerate() {
            for (algorithm, on) in row.iter().enumerate() {
                want += u32::from(*on) * 2u32.pow((algorithm + 11 * comm) as u32);
            }
        }
        prop_assert_eq!(AlgMask::parse(text.as_bytes()), Ok(AlgMask(want)));
        if chosen.len() > 1 {
            let mixed = if exclude { text.replacen('^', "", 1) } else { format!("^{text}") };
            prop_assert!(AlgMask::parse(mixed.as_bytes()).is_err());
        }
    }
}

/// A129.
#[test]
fn a_histogram_path_of_128_bytes_is_too_long() {
    let text = |length: usize| format!("1 2 3 4 /{}", "p".repeat(length - 1));
    assert!(Histogram::parse(text(127).as_bytes()).is_ok());
    let vars = [("NEURON_RT_DBG_CC_PROXY_HISTOGRAM_CONFIG", text(128))];
    let build = rules::build(&Vars::new(&[(vars[0].0, &vars[0].1)]), &TRN2);
    let line = build.outcomes.iter().flat_map(|outcome| &outcome.faults).next().unwrap().to_string();
    assert!(line.contains("Output path too long"), "{line}");
    assert_eq!(build.draft.cfg.cc_proxy_histogram_config.bucket_usecs, 0);
}

/// A068: the sentence names the token that is wrong.
#[test]
fn a_bad_item_of_a_list_is_named() {
    for (text, word) in [("1-x", "\"x\""), ("99999999999999999999", "\"99999999999999999999\""), ("5-3", "5-3")] {
        let build = rules::build(&Vars::new(&[("NEURON_RT_VISIBLE_CORES", text)]), &TRN2);
        let line = build.outcomes.iter().flat_map(|outcome| &outcome.faults).next().unwrap().to_string();
        assert!(line.contains(word), "{line}");
    }
}

#[test]
fn a_list_has_at_most_65536_numbers() {
    assert_eq!(ints("0-65535").map(|list| list.len()), Some(65536));
    assert_eq!(ints("0-65536"), None);
    assert_eq!(ints("0-65535,7"), None);
    assert_eq!(ints("0-2147483647"), None);
}

/// A104: the four forms, in any case, and nothing else.
#[test]
fn booleans_have_four_forms() {
    for (text, value) in [("0", false), ("1", true), ("false", false), ("TRUE", true), ("True", true), ("fAlSe", false)]
    {
        assert_eq!(bool::parse(text.as_bytes()), Ok(value));
    }
    for text in ["", "2", "01", "yes", "on", " 1", "1 ", "t", "truefalse"] {
        assert!(bool::parse(text.as_bytes()).is_err(), "{text:?}");
    }
}
