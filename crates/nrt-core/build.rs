//! Build facts that end up in `nrt_get_version`, the banner and the information dump: the commit
//! and its date. A tree outside a repository (a source archive) has zeros and "an unknown date".

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let hash = given("OPENNRT_GIT_HASH").or_else(|| head(&root, "%H")).unwrap_or_else(|| "0".repeat(40));
    let date = given("OPENNRT_BUILT_ON").or_else(|| head(&root, "%cd")).unwrap_or_else(|| "an unknown date".into());
    println!("cargo::rustc-env=OPENNRT_GIT_HASH={hash}");
    println!("cargo::rustc-env=OPENNRT_BUILT_ON={date}");
}

fn given(name: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={name}");
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// One field of the commit this tree was built from.
fn head(root: &Path, field: &str) -> Option<String> {
    // An archive unpacked inside somebody else's repository must not report their commit.
    if !root.join(".git").exists() {
        return None;
    }
    let git = |args: &[&str]| {
        let out = Command::new("git").current_dir(root).args(args).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    for file in ["HEAD", "logs/HEAD", "packed-refs"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).map(|path| root.join(path))
            && path.exists()
        {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(&["log", "-1", "--date=format:%b %d %Y", &format!("--format={field}")]).filter(|text| !text.is_empty())
}
