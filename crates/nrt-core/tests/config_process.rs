//! What the configuration does to a process: publication, pinning, re-reading. Each scenario runs
//! in a child process of its own, because the records and the environment are process-wide.

use neuron_abi::{Arch, Family};
use nrt_core::{
    Status,
    config::{self, Shape},
};
use std::process::Command;

const TRN2: Shape = Shape { arch: Arch::Cayman, family: Family::Trn2, cores_per_device: 8 };

/// Run `body` in a child of this test with only `vars` set; answers what it printed.
fn in_child(test: &str, label: &str, vars: &[(&str, &str)], body: fn()) -> String {
    const LABEL: &str = "CONFIG_SCENARIO";
    match std::env::var(LABEL) {
        Ok(wanted) if wanted == label => {
            body();
            std::process::exit(0);
        }
        Ok(other) => panic!("scenario {other} does not belong to this test"),
        Err(_) => {}
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env_clear()
        .env(LABEL, label)
        .envs(vars.iter().copied())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "scenario {label}:\n{text}");
    text
}

fn set(name: &str, text: &str) {
    // SAFETY: the child runs this one test on this one thread; nobody else reads the environment.
    unsafe { std::env::set_var(name, text) }
}

fn unset(name: &str) {
    // SAFETY: as in `set`.
    unsafe { std::env::remove_var(name) }
}

fn cfg() -> &'static [u8] {
    let raw = config::raw_records();
    assert_eq!(raw.cfg_len, 656);
    // SAFETY: the static record is there as long as the process; nothing writes it while the
    // slice is in use, because the scenario is the only thread.
    unsafe { std::slice::from_raw_parts(raw.cfg, raw.cfg_len) }
}

fn gcfg() -> Option<&'static [u8]> {
    let raw = config::raw_records();
    assert_eq!(raw.gcfg_len, 296);
    // SAFETY: a heap record that is not NULL is alive until the scenario unpublishes it.
    (!raw.gcfg.is_null()).then(|| unsafe { std::slice::from_raw_parts(raw.gcfg, raw.gcfg_len) })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Read `T` where a record points to.
fn at<T: Copy>(address: u64) -> T {
    // SAFETY: callers pass addresses from pointer members of the records, which point to values
    // of that type as long as the parse they come from is the last one.
    unsafe { std::ptr::with_exposed_provenance::<T>(address as usize).read() }
}

/// A095, A131: before the first parse the record is zero, but for the map, which is an empty one.
#[test]
fn before_the_first_parse_the_static_record_is_zero() {
    in_child("before_the_first_parse_the_static_record_is_zero", "zero", &[("NEURON_RT_NUM_CORES", "3")], || {
        let header = cfg().as_ptr().expose_provenance() as u64 + 288;
        assert_eq!((word(cfg(), 304), word(cfg(), 312)), (header, header));
        assert!(cfg().iter().enumerate().all(|(at, byte)| *byte == 0 || (304..320).contains(&at)));
        assert!(gcfg().is_none());
    });
}

/// A008, A097, A112, A113: the heap record appears last, is another block, and goes at close.
#[test]
fn the_heap_record_appears_when_it_is_published_and_goes_at_close() {
    let vars = [("NEURON_RT_RESET_CORES", "0"), ("NEURON_RT_DBG_DISABLE_DGE", "255")];
    in_child("the_heap_record_appears_when_it_is_published_and_goes_at_close", "publish", &vars, || {
        let pending = config::parse_init(&TRN2).unwrap();
        assert!(gcfg().is_none());
        assert_eq!((cfg()[64], half(cfg(), 8)), (0, 2));
        config::publish(pending);
        let heap = gcfg().unwrap();
        assert_eq!(half(heap, 28), 255);
        assert!(
            heap.as_ptr() as usize + 296 <= cfg().as_ptr() as usize
                || heap.as_ptr() as usize >= cfg().as_ptr() as usize + 656
        );
        assert!(!config::reset_cores());
        config::unpublish();
        assert!(gcfg().is_none());
    });
}

/// A099, A112, A124: a bad text fails the parse, the pointer stays NULL, the defaults are in place.
#[test]
fn a_failed_parse_publishes_nothing_and_logs_each_bad_text() {
    let vars = [("NEURON_RT_NUM_CORES", "many"), ("NEURON_RT_CC_CHUNK_SIZE", "-1"), ("NEURON_RT_RESET_CORES", "0")];
    let text = in_child("a_failed_parse_publishes_nothing_and_logs_each_bad_text", "bad", &vars, || {
        assert_eq!(config::parse_init(&TRN2).err(), Some(Status::Invalid));
        assert!(gcfg().is_none());
        assert_eq!((half(cfg(), 12), half(cfg(), 196), cfg()[64]), (0, 0x20_0000, 0));
    });
    for name in ["NEURON_RT_NUM_CORES=\"many\"", "NEURON_RT_CC_CHUNK_SIZE=\"-1\""] {
        assert_eq!(text.matches(name).count(), 1, "{name} in:\n{text}");
    }
}

/// A092, A095: variables are read again at each parse; counts before init read them each time.
#[test]
fn the_environment_is_read_at_each_query_and_never_at_load() {
    in_child("the_environment_is_read_at_each_query_and_never_at_load", "again", &[], || {
        assert_eq!(
            (config::num_cores(), config::visible_cores(), config::lnc_size(&TRN2)),
            (Ok(None), Ok(None), Ok(2))
        );
        assert_eq!(half(cfg(), 8), 2);
        set("NEURON_RT_NUM_CORES", "4");
        set("NEURON_RT_VISIBLE_CORES", "6,4-5,4");
        set("NEURON_LOGICAL_NC_CONFIG", "8");
        assert_eq!(config::num_cores(), Ok(Some(4)));
        assert_eq!(config::visible_cores(), Ok(Some(vec![6, 4, 5, 4])));
        assert_eq!((config::lnc_size(&TRN2), half(cfg(), 8)), (Ok(8), 8));
        let _ = config::parse_init(&TRN2).unwrap();
        assert_eq!(half(cfg(), 12), 4);
        unset("NEURON_RT_NUM_CORES");
        let _ = config::parse_init(&TRN2).unwrap();
        assert_eq!(half(cfg(), 12), 0);
        set("NEURON_RT_NUM_CORES", "x");
        set("NEURON_RT_VISIBLE_CORES", "");
        set("NEURON_LOGICAL_NC_CONFIG", "3");
        assert_eq!(config::num_cores(), Err(Status::Invalid));
        assert_eq!(config::visible_cores(), Err(Status::Invalid));
        assert_eq!(config::lnc_size(&TRN2), Err(Status::Invalid));
        assert_eq!(config::model_options().unwrap().exec_timeout_secs, 30);
        set("NEURON_RT_EXEC_TIMEOUT", "7");
        set("NEURON_RT_INSPECT_ON_FAIL", "1");
        assert_eq!(config::model_options().unwrap().exec_timeout_secs, 7);
        assert!(config::inspect_options().unwrap().on_fail);
    });
}

/// A092: a simulated type once seen set is pinned, not set is looked up again, empty is not set.
#[test]
fn a_simulated_type_is_pinned_once_seen_set() {
    const FAKE: &str = "NEURON_RT_FAKE_INSTANCE_TYPE";
    in_child("a_simulated_type_is_pinned_once_seen_set", "pin", &[(FAKE, "")], || {
        let name = || config::fake_product().map(|product| product.map(|product| product.name));
        assert_eq!(name(), Ok(None));
        set(FAKE, "trn9.huge");
        assert_eq!(name(), Err(Status::Invalid));
        set(FAKE, "trn2.48xlarge");
        assert_eq!(name(), Ok(Some("trn2.48xlarge")));
        assert_eq!((cfg()[337], half(cfg(), 340), half(cfg(), 344)), (1, 5, 7));
        for later in ["trn1.32xlarge", "", "nonsense"] {
            set(FAKE, later);
            assert_eq!(name(), Ok(Some("trn2.48xlarge")));
        }
        unset(FAKE);
        config::publish(config::parse_init(&TRN2).unwrap());
        assert_eq!((cfg()[337], half(cfg(), 340), gcfg().unwrap()[184]), (1, 5, 1));
    });
}

#[test]
fn an_unknown_simulated_type_is_one_line_with_the_known_names() {
    let vars = [("NEURON_RT_FAKE_INSTANCE_TYPE", "trn9.huge")];
    let text = in_child("an_unknown_simulated_type_is_one_line_with_the_known_names", "names", &vars, || {
        assert_eq!(config::fake_product().err(), Some(Status::Invalid));
    });
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("trn9.huge")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    for product in nrt_core::device::product::PRODUCTS {
        assert!(lines[0].contains(product.name), "{}", lines[0]);
    }
}

/// The C++ members as a reader with the vendor's layout walks them: begin/end/capacity, and the
/// tree from the leftmost node by the successor rule of a red-black tree with a header.
#[test]
fn vector_and_map_can_be_walked_by_their_pointers() {
    let vars = [
        ("NEURON_RT_PROFILE_BUF_EVENT_MB", "11"),
        ("NEURON_RT_PROFILE_BUF_DMA_MB", "44"),
        ("NEURON_RT_PROFILE_BUF_CC_CORE_EVENT_MB", "77"),
        ("NEURON_RT_VISIBLE_CORES", "2-3"),
    ];
    in_child("vector_and_map_can_be_walked_by_their_pointers", "walk", &vars, || {
        let _ = config::parse_init(&TRN2).unwrap();
        let list = || (word(cfg(), 16)..word(cfg(), 24)).step_by(4).map(at::<i32>).collect::<Vec<_>>();
        assert_eq!((list(), config::visible_len()), (vec![2, 3], 2));
        config::set_visible(&[5, 6, 7]);
        assert_eq!((list(), config::visible_len()), (vec![5, 6, 7], 3));
        assert_eq!(word(cfg(), 24), word(cfg(), 32));

        let header = cfg().as_ptr().expose_provenance() as u64 + 288;
        let [parent, left, right, key] = [8u64, 16, 24, 32];
        let field = |node: u64, offset: u64| at::<u64>(node + offset);
        let mut node = word(cfg(), 304);
        let mut found = Vec::new();
        while node != header {
            found.push((at::<u32>(node + key), at::<u32>(node + key + 4)));
            if field(node, right) != 0 {
                node = field(node, right);
                while field(node, left) != 0 {
                    node = field(node, left);
                }
            } else {
                let mut above = field(node, parent);
                while node == field(above, right) {
                    (node, above) = (above, field(above, parent));
                }
                if field(node, right) != above {
                    node = above;
                }
            }
        }
        assert_eq!(found, [(1, 11), (4, 44), (7, 77)]);
        assert_eq!(word(cfg(), 320), 3);
    });
}

/// A104, A110: texts are pointers to private copies, in the record that the facts name.
#[test]
fn text_members_point_to_private_copies() {
    let vars = [("NEURON_RT_ROOT_COMM_ID", "10.0.0.1:4000"), ("NEURON_RT_S3_CORE_DUMP_PREFIX", "s3://b/%i")];
    in_child("text_members_point_to_private_copies", "texts", &vars, || {
        config::publish(config::parse_init(&TRN2).unwrap());
        set("NEURON_RT_ROOT_COMM_ID", "changed");
        let text = |address: u64| -> Vec<u8> { (address..).map(at::<u8>).take_while(|byte| *byte != 0).collect() };
        assert_eq!(text(word(cfg(), 40)), b"10.0.0.1:4000");
        assert_eq!(text(word(gcfg().unwrap(), 176)), b"s3://b/%i");
        assert_eq!(word(cfg(), 224), 0);
        assert_eq!(config::cc_root_comm_id().as_deref(), Some("10.0.0.1:4000"));
        assert_eq!(config::core_dump_templates().s3, "s3://b/%i");
        assert_eq!(config::core_dump_templates().local, "/tmp/neuron-core-dump/dt-%d-cid-%c");
    });
}

#[test]
fn accessors_have_the_defaults_before_the_first_parse() {
    in_child("accessors_have_the_defaults_before_the_first_parse", "accessors", &[], || {
        assert!(config::reset_cores() && config::p2p_enabled() && !config::log_coalescing() && !config::v4_plus());
        assert_eq!((config::ucode_path(), config::cc_root_comm_id(), config::exec_timeout_secs()), (None, None, 30));
        assert_eq!(config::process_tag(), std::process::id().to_string().as_str());
    });
}
