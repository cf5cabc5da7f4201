//! Whether this runtime and the installed kernel driver understand each other
//! (`facts/runtime/lifecycle.md` section 3).

use neuron_abi::{Arch, Status};

const NO_VERSION: &str =
    "Unable to determine Neuron Driver version. Please check aws-neuronx-dkms package is installed.";
const TOO_OLD_TO_ASK: &str = "Neuron Runtime 2.x requires Neuron driver(aws-neuron-dkms) version 2.1 or above.";
const NO_RANGE: &str = "Unable to read compatible Driver version";

/// Compatibility ids this runtime speaks on silicon of `arch`, lowest and highest.
const fn spoken(arch: Arch) -> (u32, u32) {
    match arch {
        Arch::Sunda => (6, 6),
        Arch::Cayman | Arch::Mariana => (10, 11),
    }
}

/// Major and minor of a driver version text such as `2.27.4.0`; `None` when it does not start with
/// two numbers.
pub fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim().split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Compare the driver with this runtime.
///
/// `driver_version`: text of `/sys/module/neuron/version`, `None` when unreadable. `range`: lowest
/// and highest compatibility id the driver offers, `None` when it could not be asked. The error is
/// always `NRT_INVALID` with the line to log: it names the package to upgrade.
pub fn check(driver_version: Option<&str>, range: Option<(u32, u32)>, arch: Arch) -> Result<(), (Status, String)> {
    let refuse = |text: &str| Err((Status::Invalid, text.to_owned()));
    let Some((major, _)) = driver_version.and_then(major_minor) else { return refuse(NO_VERSION) };
    if major <= 1 {
        return refuse(TOO_OLD_TO_ASK);
    }
    // A range whose ends are swapped says nothing either.
    let Some((low, high)) = range.filter(|(low, high)| low <= high) else { return refuse(NO_RANGE) };
    let (needed_low, needed_high) = spoken(arch);
    let remedy = if high < needed_low {
        "The driver is too old: upgrade the aws-neuronx-dkms package."
    } else if low > needed_high {
        "This runtime is too old: upgrade the aws-neuronx-runtime-lib and aws-neuronx-collectives packages."
    } else {
        return Ok(());
    };
    refuse(&format!(
        "This Neuron Runtime (compatibility id: {}) is not compatible with the installed aws-neuron-dkms package \
         (compatibility id: {}). {remedy}",
        ids(needed_low, needed_high),
        ids(low, high),
    ))
}

/// `6`, or `range 10 - 11`.
fn ids(low: u32, high: u32) -> String {
    if low == high { low.to_string() } else { format!("range {low} - {high}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD_DRIVER: &str = "The driver is too old: upgrade the aws-neuronx-dkms package.";
    const OLD_RUNTIME: &str =
        "This runtime is too old: upgrade the aws-neuronx-runtime-lib and aws-neuronx-collectives packages.";

    fn text(version: Option<&str>, range: Option<(u32, u32)>, arch: Arch) -> String {
        let (status, text) = check(version, range, arch).unwrap_err();
        assert_eq!(status, Status::Invalid);
        text
    }

    #[test]
    fn unreadable_versions() {
        for version in [None, Some(""), Some("2"), Some("two.1"), Some("-2.1"), Some("2."), Some("99999999999.1")] {
            assert_eq!(
                text(version, Some((10, 11)), Arch::Cayman),
                "Unable to determine Neuron Driver version. Please check aws-neuronx-dkms package is installed.",
                "{version:?}"
            );
        }
        assert_eq!(major_minor("2.27.4.0\n"), Some((2, 27)));
    }

    #[test]
    fn drivers_of_the_first_generation() {
        for version in ["0.9", "1.0", "1.99.3"] {
            assert_eq!(
                text(Some(version), None, Arch::Sunda),
                "Neuron Runtime 2.x requires Neuron driver(aws-neuron-dkms) version 2.1 or above.",
            );
        }
    }

    #[test]
    fn ranges_that_say_nothing() {
        for range in [None, Some((11, 10))] {
            assert_eq!(text(Some("2.27.4.0"), range, Arch::Mariana), "Unable to read compatible Driver version");
        }
    }

    /// Every pair of ends, against the meeting of two sets of numbers.
    #[test]
    fn ranges_meet_or_name_the_package_to_upgrade() {
        for (arch, needed, name) in [
            (Arch::Sunda, [6].as_slice(), "6"),
            (Arch::Cayman, &[10, 11], "range 10 - 11"),
            (Arch::Mariana, &[10, 11], "range 10 - 11"),
        ] {
            for low in 0..16 {
                for high in low..16 {
                    let offered: Vec<u32> = (low..=high).collect();
                    let answer = check(Some("2.27.4.0"), Some((low, high)), arch);
                    if offered.iter().any(|id| needed.contains(id)) {
                        assert_eq!(answer, Ok(()), "{arch:?} {offered:?}");
                        continue;
                    }
                    let (status, text) = answer.unwrap_err();
                    assert_eq!(status, Status::Invalid);
                    let has = if low == high { low.to_string() } else { format!("range {low} - {high}") };
                    let remedy = if offered[0] > needed[0] { OLD_RUNTIME } else { OLD_DRIVER };
                    assert_eq!(
                        text,
                        format!(
                            "This Neuron Runtime (compatibility id: {name}) is not compatible with the installed \
                             aws-neuron-dkms package (compatibility id: {has}). {remedy}"
                        )
                    );
                }
            }
        }
    }

    /// The ranges the drivers of `facts/driver/enums.tsv` offer (`compat_min`, `compat_max`).
    #[test]
    fn the_known_drivers_are_accepted() {
        assert_eq!(check(Some("2.27.4.0"), Some((5, 7)), Arch::Sunda), Ok(()));
        assert_eq!(check(Some("2.24.7.0"), Some((10, 11)), Arch::Cayman), Ok(()));
        assert_eq!(check(Some("2.26.5.0"), Some((10, 11)), Arch::Mariana), Ok(()));
    }
}
