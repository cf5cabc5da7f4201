//! `neuron-emu replay`: what it prints and how it ends.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{EMU, text};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../neuron-kmd/golden")
}

fn replay(paths: &[&Path]) -> Output {
    Command::new(EMU).arg("replay").args(paths).output().expect("the program is built")
}

/// Unpacks the recordings of a driver version.
fn unpack(version: &str, to: &Path) -> PathBuf {
    let file = fs::File::open(golden().join(format!("{version}.tar.gz"))).expect("an archive");
    let folder = to.join(version);
    tar::Archive::new(flate2::read::GzDecoder::new(file)).unpack(&folder).expect("unpacked");
    folder
}

#[test]
fn a_matching_transcript_is_ok_and_a_changed_one_differs_at_the_field() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = unpack("2.24.7.0", dir.path());
    let good = folder.join("trn1-7164/01_identity.json");
    let output = replay(&[&good]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output), format!("ok {} 117/117\n", good.display()));

    let changed = folder.join("trn1-7164/01_changed.json");
    let original = fs::read_to_string(&good).expect("a transcript");
    fs::write(&changed, original.replacen("0700000005000000", "0800000005000000", 1)).expect("our folder");
    let output = replay(&[&changed, &good]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "a line per file: {said}");
    assert!(lines[0].starts_with(&format!("differs {} 116/117: step 32 ", changed.display())), "{said}");
    assert!(lines[0].contains("08") && lines[0].contains("07"), "recorded and model: {said}");
    assert!(lines[1].starts_with("ok "), "{said}");

    let reason = "2.24.7.0/trn1-7164/01_changed.json\t32\tchanged by this test\n";
    fs::write(dir.path().join("known-differences.tsv"), reason).expect("our folder");
    let output = replay(&[&changed]);
    assert_eq!(text(&output), format!("ok {} 116/117 (1 known)\n", changed.display()));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn folders_and_archives_give_the_same_lines_in_the_same_order() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = unpack("2.26.5.0", dir.path());
    let keep = |name: &str| name.starts_with("01_") || name.starts_with("03_");
    for device in fs::read_dir(&folder).expect("a folder").flatten().filter(|d| d.path().is_dir()) {
        for file in fs::read_dir(device.path()).expect("a folder").flatten() {
            if !keep(&file.file_name().to_string_lossy()) {
                fs::remove_file(file.path()).expect("our folder");
            }
        }
    }
    let archive = dir.path().join("2.26.5.0.tar.gz");
    let packed = flate2::write::GzEncoder::new(fs::File::create(&archive).expect("our folder"), Default::default());
    let mut packed = tar::Builder::new(packed);
    packed.append_dir_all(".", &folder).expect("packed");
    packed.into_inner().expect("packed").finish().expect("packed");
    // Without the file name part that differs.
    let lines = |output: &Output, base: &Path| text(output).replace(&*base.to_string_lossy(), "");
    let (from_folder, from_archive) = (replay(&[&folder]), replay(&[&archive]));
    assert!(text(&from_folder).lines().count() >= 4, "{}", text(&from_folder));
    assert_eq!(lines(&from_folder, &folder), lines(&from_archive, &archive));
    assert_eq!(from_folder.status.code(), from_archive.status.code());
}

#[test]
fn input_that_cannot_be_used_is_one_sentence_each_and_status_2() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("our folder");
        fs::write(&path, text).expect("our folder");
        path
    };
    let long = format!("[{}", "1,".repeat(100_000));
    let inputs = [
        file("v/d/text.json", "no JSON"),
        file("v/d/list.json", "[1]"),
        file("v/d/empty.json", "{}"),
        file("v/d/steps.json", r#"{"driver":"2.24.7.0","device":"trn1-7164","steps":3}"#),
        file("v/d/driver.json", r#"{"driver":"9.9","device":"trn1-7164","steps":[]}"#),
        file("v/d/device.json", r#"{"driver":"2.24.7.0","device":"x-ffff","steps":[]}"#),
        file("v/d/same.json", r#"{"driver":"2.24.7.0","device":"trn1-7164","same_as":"trn1-7164/gone.json"}"#),
        file("v/d/long.json", &long),
        file("v/bad.tar.gz", "no archive"),
        dir.path().join("missing.json"),
    ];
    for input in &inputs {
        let output = replay(&[input]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{}: {said}", input.display());
        assert_eq!(said.lines().count(), 1, "{}: {said}", input.display());
        assert!(said.starts_with("neuron-emu: ") && said.len() < 600, "{said}");
    }
    let nothing = dir.path().join("nothing");
    fs::create_dir(&nothing).expect("our folder");
    assert!(text(&replay(&[&nothing])).contains("holds no transcript"));
}
