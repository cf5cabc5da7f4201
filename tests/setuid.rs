//! A set-uid program: whoever starts it must not steer which files the library opens.

mod common;

use common::{command, install, linked, must_succeed};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

const NOBODY: u32 = 65534;
const DAEMON: u32 = 1;

/// A118: `OPENNRT_*` means nothing there, and a vendor's variable what it means everywhere.
#[test]
fn a_set_uid_process_ignores_our_variables_and_reads_the_vendors() {
    let tree = install();
    let tree = tree.path();
    let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("the file is ours");
    let runpath = format!("-Wl,-rpath,{}", tree.join("lib").display());
    let exe = linked("setuid", tree, &[&runpath]);
    let (dev, sys) = (tree.join("dev"), tree.join("sys"));
    for file in [dev.join("neuron0"), sys.join("class/neuron_device/neuron0/info/architecture/instance_type")] {
        fs::create_dir_all(file.parent().expect("both are in a folder")).expect("the folder is ours");
        fs::write(file, "Trn1\n").expect("the folder is ours");
    }
    open(tree, 0o755);

    let run = |root: bool, ours: bool| -> Vec<String> {
        let mut command = command(&exe, tree);
        command.env("NEURON_RT_VISIBLE_CORES", "1");
        if ours {
            command.env("OPENNRT_DEV_DIR", &dev).env("OPENNRT_SYS_DIR", &sys).env("OPENNRT_HBM_MIB", "64");
        }
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = must_succeed(&mut command);
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    };
    let (steered, alone) = (run(false, true), run(false, false));
    assert_eq!((&*steered[1], &*steered[2], &*alone[2]), ("backend kernel", "visible 1", "visible 1"));
    assert_ne!(steered[3], alone[3], "device memory follows OPENNRT_HBM_MIB");

    let skip = |why: &str| {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "not proved: {why}");
        eprintln!("skipped: {why}");
    };
    if chown(&exe, Some(DAEMON), Some(DAEMON)).is_err() {
        return skip("only root can make a program set-uid for somebody else");
    }
    // A change of the owner takes the bit away, so it comes last.
    open(&exe, 0o4755);
    let secure = run(true, true);
    if secure[0] != "secure 1" {
        return skip("the temporary folder is on a file system without set-uid programs, set TMPDIR to another one");
    }
    assert_eq!(secure[1..], alone[1..], "as if no OPENNRT_ variable were set");
}
