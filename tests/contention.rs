//! Processes that want the same cores, on the device files of `neuron-emu serve`.
//!
//! What a process was given is read twice: from its own log, and from the driver, which is asked
//! for every core on its own by a process that has none.

#[path = "common/client.rs"]
mod client;
mod common;
#[path = "common/emu.rs"]
mod emu;

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use client::Client;
use emu::Served;
use neuron_driver::requests::Marked;
use neuron_driver::{Driver, KernelBackend, Mode};

/// What a process asks for, as the variables that say so; a variable that is not named is not set.
type Wish = &'static [(&'static str, &'static str)];

const VISIBLE: &str = "NEURON_RT_VISIBLE_CORES";
const NUMBER: &str = "NEURON_RT_NUM_CORES";
const SIZE: &str = "NEURON_LOGICAL_NC_CONFIG";

fn serve(instance: &str) -> Option<Served> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    Served::start(PROGRAM.get_or_init(emu::program), instance, &["--hbm-gib", "1"])
}

/// A process that does not reset its cores: who gets them does not depend on it.
fn start(served: &Served) -> Client {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (tree, exe) = BUILT.get_or_init(|| {
        let tree = common::install();
        let exe = common::linked("client", tree.path(), &[]);
        (tree, exe)
    });
    let mut command = common::command(exe, tree.path());
    command.envs(served.variables()).envs([("NEURON_RT_RESET_CORES", "0"), ("NEURON_RT_LOG_LEVEL", "INFO")]);
    Client::start(command)
}

fn wish(client: &mut Client, wish: Wish) {
    for name in [VISIBLE, NUMBER, SIZE] {
        let line = match wish.iter().find(|(n, _)| *n == name) {
            Some((_, value)) => format!("set {name} {value}"),
            None => format!("unset {name}"),
        };
        assert_eq!(client.ask(&line), "0");
    }
}

/// Physical cores of the last grant its log tells of.
fn granted(client: &Client) -> Range<u32> {
    let log = client.log();
    let line = log.lines().rfind(|line| line.contains("LNC info:")).unwrap_or_else(|| panic!("no grant:\n{log}"));
    let number = |name: &str| {
        let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("{line}"));
        rest.split_whitespace().next().and_then(|n| n.parse::<u32>().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    number("first pnc ")..number("last pnc ") + 1
}

/// Cores that belong to somebody else, as the driver says.
fn taken(served: &Served, per_device: u32, cores: u32) -> Vec<u32> {
    let driver = KernelBackend::new(served.dev(), served.sys());
    let misc = driver.open(0, Mode::Misc).expect("claims need no slot");
    let busy = |core: &u32| match misc.mark_cores(per_device, *core, *core, 1).expect("a core of the instance") {
        Marked::From(_) => false,
        Marked::Busy { .. } => true,
    };
    (0..cores).filter(busy).collect()
}

/// What the second of two processes gets.
enum Second {
    /// These physical cores.
    Gets(Range<u32>),
    /// A status and a part of the one line that says why.
    Refused(&'static str, &'static str),
}
use Second::{Gets, Refused};

fn matrix(instance: &str, per_device: u32, cores: u32, rows: &[(Wish, Wish, Second)]) {
    let Some(served) = serve(instance) else { return };
    let mut first = start(&served);
    for (holds, wants, expected) in rows {
        let row = format!("{instance}: {holds:?}, then {wants:?}");
        let mut second = start(&served);
        wish(&mut first, holds);
        wish(&mut second, wants);
        assert_eq!(first.ask("init"), "0", "{row}: {}", first.log());
        let mut owned: Vec<u32> = granted(&first).collect();
        assert_eq!(taken(&served, per_device, cores), owned, "{row}");
        let status = second.ask("init");
        match expected {
            Gets(range) => {
                assert_eq!(status, "0", "{row}: {}", second.log());
                assert_eq!(granted(&second), *range, "{row}");
                owned.extend(range.clone());
                owned.sort_unstable();
            }
            Refused(with, text) => {
                assert_eq!(status, *with, "{row}: {}", second.log());
                let log = second.log();
                assert_eq!(log.lines().filter(|line| line.contains(text)).count(), 1, "{row}: {text}\n{log}");
                let named = log
                    .lines()
                    .any(|l| l.contains("Processes that use these devices: ") && l.ends_with(&first.pid().to_string()));
                assert_eq!(named, *with == "1", "{row}: who is in the way is told where waiting helps\n{log}");
            }
        }
        assert_eq!(taken(&served, per_device, cores), owned, "{row}: nothing is left of a refusal");
        assert_eq!(first.ask("close"), "closed");
        if matches!(expected, Refused("1", _)) {
            assert_eq!(second.ask("init"), "0", "{row}: free again; {}", second.log());
        }
        assert_eq!(second.end().0, Some(0));
        assert!(taken(&served, per_device, cores).is_empty(), "{row}");
    }
}

/// Twelve cores on six devices.
#[test]
fn the_second_of_two_processes_gets_what_is_free_or_is_told_why_not() {
    const ALL: Wish = &[];
    let list = |text| -> Wish { Vec::leak(vec![(VISIBLE, text)]) };
    let number = |text| -> Wish { Vec::leak(vec![(NUMBER, text)]) };
    matrix(
        "inf2.24xlarge",
        2,
        12,
        &[
            // Explicit and explicit: the same, adjacent, overlapping, inside, around.
            (list("0-3"), list("0-3"), Refused("1", "Requested:lnc0-lnc3 Available:0 Logical Core size 1")),
            (list("0-3"), list("4-7"), Gets(4..8)),
            (list("4-7"), list("0-3"), Gets(0..4)),
            (list("11"), list("10"), Gets(10..11)),
            (list("0-3"), list("3-4"), Refused("1", "Requested:lnc3-lnc4 Available:1 Logical Core size 1")),
            (list("3-4"), list("0-3"), Refused("1", "Requested:lnc0-lnc3 Available:3 Logical Core size 1")),
            (list("0-11"), list("5"), Refused("1", "Requested:lnc5-lnc5 Available:0 Logical Core size 1")),
            (list("4-5"), list("0-11"), Refused("1", "Requested:lnc0-lnc11 Available:6 Logical Core size 1")),
            // The driver's search leaves out the entry behind a cut run: six are free, it says five.
            (list("5"), list("0-11"), Refused("1", "Requested:lnc0-lnc11 Available:5 Logical Core size 1")),
            // Implicit first.
            (number("3"), list("3-5"), Gets(3..6)),
            (number("3"), list("2-3"), Refused("1", "Requested:lnc2-lnc3 Available:1 Logical Core size 1")),
            (ALL, list("0"), Refused("1", "Requested:lnc0-lnc0 Available:0 Logical Core size 1")),
            // Explicit first.
            (list("0"), number("2"), Gets(1..3)),
            (list("1"), number("1"), Gets(0..1)),
            (list("1"), number("2"), Gets(3..5)),
            (list("5-6"), number("5"), Gets(0..5)),
            (list("5-6"), number("6"), Refused("1", "Requested:6 Available:5 Logical Core size 1")),
            (list("0"), ALL, Refused("1", "Requested:12 Available:11 Logical Core size 1")),
            (list("11"), ALL, Refused("1", "Requested:12 Available:11 Logical Core size 1")),
            (list("0-11"), number("1"), Refused("1", "Requested:1 Available:0 Logical Core size 1")),
            // Implicit and implicit.
            (number("4"), number("8"), Gets(4..12)),
            (number("4"), number("9"), Refused("1", "Requested:9 Available:8 Logical Core size 1")),
            (ALL, ALL, Refused("1", "Requested:12 Available:0 Logical Core size 1")),
            // A list that names the cores overrules a number.
            (list("0-3"), &[(VISIBLE, "4-5"), (NUMBER, "9")], Gets(4..6)),
        ],
    );
}

/// Eight physical cores; processes of either logical core size beside each other.
#[test]
fn processes_of_other_logical_core_sizes_count_in_physical_cores() {
    matrix(
        "trn2.3xlarge",
        8,
        8,
        &[
            (
                &[(SIZE, "1"), (VISIBLE, "1")],
                &[(SIZE, "2"), (VISIBLE, "0")],
                Refused("1", "Requested:lnc0-lnc0 Available:0 Logical Core size 2"),
            ),
            (&[(SIZE, "1"), (VISIBLE, "1")], &[(SIZE, "2"), (VISIBLE, "1")], Gets(2..4)),
            (&[(SIZE, "2"), (VISIBLE, "1")], &[(SIZE, "1"), (VISIBLE, "4-7")], Gets(4..8)),
            (
                &[(SIZE, "2"), (VISIBLE, "1")],
                &[(SIZE, "1"), (VISIBLE, "3-4")],
                Refused("1", "Requested:lnc3-lnc4 Available:1 Logical Core size 1"),
            ),
            (&[(SIZE, "2"), (NUMBER, "1")], &[(SIZE, "1"), (NUMBER, "1")], Gets(2..3)),
            (
                &[(SIZE, "2"), (NUMBER, "1")],
                &[(SIZE, "2")],
                Refused("1", "Requested:4 Available:3 Logical Core size 2"),
            ),
        ],
    );
}

/// How sixteen processes may share eight cores in a round.
struct Round {
    name: &'static str,
    /// Wish of process `n`.
    wishes: fn(usize) -> Wish,
    /// How many must win; `None` where it depends on who is first.
    winners: Option<usize>,
}

/// The cores an explicit wish names.
fn named(wish: Wish) -> Option<Range<u32>> {
    let (_, text) = wish.iter().find(|(name, _)| *name == VISIBLE)?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().expect("a number")..last.parse::<u32>().expect("a number") + 1)
}

const ONES: [Wish; 8] = [
    &[(SIZE, "1"), (VISIBLE, "0")],
    &[(SIZE, "1"), (VISIBLE, "1")],
    &[(SIZE, "1"), (VISIBLE, "2")],
    &[(SIZE, "1"), (VISIBLE, "3")],
    &[(SIZE, "1"), (VISIBLE, "4")],
    &[(SIZE, "1"), (VISIBLE, "5")],
    &[(SIZE, "1"), (VISIBLE, "6")],
    &[(SIZE, "1"), (VISIBLE, "7")],
];
const RANGES: [Wish; 8] = [
    &[(SIZE, "1"), (VISIBLE, "0-1")],
    &[(SIZE, "1"), (VISIBLE, "1-2")],
    &[(SIZE, "1"), (VISIBLE, "0-3")],
    &[(SIZE, "1"), (VISIBLE, "2-5")],
    &[(SIZE, "1"), (VISIBLE, "4-7")],
    &[(SIZE, "1"), (VISIBLE, "6-7")],
    &[(SIZE, "1"), (VISIBLE, "5")],
    &[(SIZE, "1"), (VISIBLE, "0-7")],
];
const ANY_ONE: Wish = &[(SIZE, "1"), (NUMBER, "1")];
const ALL_OF_THEM: Wish = &[(SIZE, "1")];

const ROUNDS: [Round; 5] = [
    Round { name: "any one", wishes: |_| ANY_ONE, winners: Some(8) },
    Round { name: "two for each", wishes: |n| ONES[n % 8], winners: Some(8) },
    Round { name: "one for each, and any one", wishes: |n| ONES.get(n).copied().unwrap_or(ANY_ONE), winners: Some(8) },
    Round { name: "ranges that overlap", wishes: |n| RANGES[n % 8], winners: None },
    Round { name: "all of them", wishes: |_| ALL_OF_THEM, winners: Some(1) },
];

/// Nobody gives back before all have an answer, so whoever loses must find a winner on its cores.
#[test]
fn sixteen_processes_that_start_together_never_share_a_core() {
    let Some(served) = serve("trn2.3xlarge") else { return };
    let gate = tempfile::NamedTempFile::new().unwrap();
    let path = gate.path().to_str().unwrap();
    let mut clients: Vec<_> = (0..16).map(|_| start(&served)).collect();
    let mut order: Vec<usize> = (0..16).collect();
    for round in 0..50 {
        let Round { name, wishes, winners } = &ROUNDS[round % ROUNDS.len()];
        let closed = File::open(gate.path()).unwrap();
        closed.lock().unwrap();
        // The order in which they come to the gate is not the same every time.
        order.rotate_left(3);
        for &n in &order {
            wish(&mut clients[n], wishes(n));
            assert_eq!(clients[n].ask(&format!("gate {path}")), "at the gate");
        }
        drop(closed);
        let answers: Vec<_> = clients.iter_mut().map(Client::answer).collect();

        let won: Vec<usize> = (0..16).filter(|&n| answers[n] == "0").collect();
        let cores: Vec<_> = won.iter().map(|&n| granted(&clients[n])).collect();
        let mut owned: Vec<u32> = cores.iter().cloned().flatten().collect();
        owned.sort_unstable();
        let situation = format!("round {round}, {name}: {answers:?}, cores {cores:?}");
        assert!(owned.windows(2).all(|pair| pair[0] != pair[1]), "a core twice; {situation}");
        assert_eq!(taken(&served, 8, 8), owned, "{situation}");
        assert!(winners.is_none_or(|winners| winners == won.len()), "{situation}");
        for n in 0..16 {
            match (answers[n].as_str(), named(wishes(n))) {
                ("0", Some(cores)) => assert_eq!(granted(&clients[n]), cores, "{situation}"),
                ("0", None) => {}
                ("1", Some(mut cores)) => assert!(cores.any(|c| owned.contains(&c)), "{n} lost to nobody; {situation}"),
                ("1", None) => assert!(owned.len() == 8, "{n} lost to nobody; {situation}"),
                _ => panic!("{situation}: {}", clients[n].log()),
            }
        }
        for n in won {
            assert_eq!(clients[n].ask("close"), "closed");
        }
        assert!(taken(&served, 8, 8).is_empty(), "{situation}");
    }
}

/// The next of a sequence that only looks like chance (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// B06: whatever an init was at, nothing of it is left when the process is gone.
#[test]
fn two_hundred_processes_killed_at_any_moment_leave_no_claim() {
    let Some(served) = serve("trn1.2xlarge") else { return };
    let mut next_one = start(&served);
    let (mut seed, mut inside, mut behind) = (2031, 0, 0);
    // Follows what happens, so that about half of them die inside nrt_init on any machine.
    let mut usual = Duration::from_millis(10);
    for round in 0..200 {
        let mut client = start(&served);
        wish(&mut client, [&[][..], &[(NUMBER, "1")], &[(VISIBLE, "0-1")], &[(VISIBLE, "1")]][round % 4]);
        client.send("init");
        let moment = Instant::now() + usual.mul_f64((next(&mut seed) % 2000) as f64 / 1000.0);
        // No event is waited for here: the moment is what is tried out.
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        if client.kill().lines().any(|line| line == "= 0") {
            (behind, usual) = (behind + 1, usual.mul_f64(0.9));
        } else {
            (inside, usual) = (inside + 1, usual.mul_f64(1.1));
        }
        assert_eq!(next_one.ask("init"), "0", "round {round}: {}", next_one.log());
        assert_eq!(next_one.ask("close"), "closed");
    }
    assert!(taken(&served, 2, 2).is_empty());
    println!("{inside} killed inside nrt_init, {behind} behind it");
    assert!(inside >= 40 && behind >= 40, "{inside} inside, {behind} behind");
}
