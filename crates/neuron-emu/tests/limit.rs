//! What happens when every thread of the server is in a call that blocks.

mod common;

use std::process::Command;

use common::{Client, can_emulate, kill, raw_client};
use neuron_emu::machine::{Machine, Wanted};
use neuron_emu::publish::publish;
use neuron_kmd::Profile;

#[test]
fn when_all_threads_are_blocked_calls_are_refused_and_closes_and_kills_get_through() {
    if !can_emulate("thread limit") {
        return;
    }
    let wanted = Wanted {
        instance: "inf2.24xlarge".into(),
        driver: Profile::default(),
        hbm_mib: None,
        faults: vec!["reset-no-ack@0".parse().expect("a fault")],
        params: String::new(),
    };
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let machine = Machine::new(&wanted).expect("a machine");
    let published = publish(machine, dir.path(), 4).expect("published");
    let start = || Client::start(Command::new(raw_client()), dir.path().join("dev"));
    let mut holder = start();
    assert_eq!(holder.open('f', libc::O_RDWR, 1), "ok");
    // Opens of the device whose first reset never ends.
    let mut blocked: Vec<_> = (0..3).map(|_| start()).collect();
    for client in &mut blocked {
        let command = client.open_command('f', libc::O_RDWR, 0);
        client.send(&command);
    }
    while published.server.waiting.len() != 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut other = start();
    assert_eq!(other.open('f', libc::O_RDWR, 1), format!("errno {}", libc::EAGAIN));
    assert_eq!(holder.ask("ioctl f 0x40084e64 0000000000000000").split(' ').nth(1), Some("11"), "EAGAIN");
    assert_eq!(holder.ask("close f"), "ok");
    kill(blocked[1].pid(), libc::SIGKILL);
    assert_eq!(blocked[1].ended_by(), Some(libc::SIGKILL));
    while published.server.waiting.len() != 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(other.open('f', libc::O_RDWR, 1), "ok");
    published.end();
}
