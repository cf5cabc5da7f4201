//! `nrt-info --config` as a process sees it: exit status and output for a good and a bad environment.

use std::process::{Command, ExitCode};

/// Run the report in a child of this test with only `vars` set; answers its standard output.
fn report(test: &str, vars: &[(&str, &str)], json: bool, want: ExitCode) -> Option<String> {
    if std::env::var_os("INFO_CHILD").is_some() {
        assert_eq!(nrt_tools::info::config::run(json), want);
        return None;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env_clear()
        .env("INFO_CHILD", "1")
        .env("OPENNRT_DEV_DIR", "/nonexistent")
        .envs(vars.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

/// The lines of one variable: its own and the indented ones below it.
fn lines<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let own = format!("  {name} = ");
    let mut all = text.lines().skip_while(|line| !line.starts_with(&own));
    let first = all.next().unwrap_or_else(|| panic!("no line for {name} in\n{text}"));
    std::iter::once(first).chain(all.take_while(|line| line.starts_with("      "))).collect()
}

#[test]
fn a_good_environment_exits_with_0_and_works_without_a_device() {
    let vars = [("NEURON_RT_NUM_CORES", "4"), ("NEURON_LOGICAL_NC_CONFIG", "2")];
    let test = "a_good_environment_exits_with_0_and_works_without_a_device";
    let Some(text) = report(test, &vars, false, ExitCode::SUCCESS) else { return };
    assert!(text.contains("Configuration for: no device"));
    assert_eq!(lines(&text, "NEURON_RT_NUM_CORES")[0], "  NEURON_RT_NUM_CORES = 4  [environment]  cfg.num_cores+12");
    assert!(lines(&text, "NEURON_LOGICAL_NC_CONFIG").iter().any(|line| line.contains("set to \"2\"; rule: ")));
    assert!(text.contains("\nNo bad values.\n"));
}

#[test]
fn a_bad_value_exits_with_1_and_stands_in_its_row() {
    let vars = [
        ("NEURON_RT_FAKE_INSTANCE_TYPE", "trn2.48xlarge"),
        ("NEURON_RT_NUM_CORES", "four"),
        ("NEURON_RT_VISIBLE_CORE", "1"),
        ("NEURON_RT_DBG_DISABLE_DGE_BOUND_CHECK", "1"),
    ];
    let Some(text) = report("a_bad_value_exits_with_1_and_stands_in_its_row", &vars, false, ExitCode::FAILURE) else {
        return;
    };
    assert!(text.contains("Configuration for: simulated trn2.48xlarge (arch 3, 8 cores per device)"));
    assert!(lines(&text, "NEURON_RT_NUM_CORES").iter().any(|line| line.contains("BAD: NEURON_RT_NUM_CORES=\"four\"")));
    assert!(lines(&text, "NEURON_RT_DBG_DISABLE_DGE_BOUND_CHECK")[0].ends_with("SECURITY"));
    assert!(text.contains("NEURON_RT_VISIBLE_CORE: no such variable; the nearest is NEURON_RT_VISIBLE_CORES"));
    assert!(text.contains("\nBad values: 1."));
}

#[test]
fn json_says_the_same() {
    let vars = [("NEURON_RT_NUM_CORES", "four"), ("NEURON_RT_VISIBLE_CORE", "1")];
    let Some(text) = report("json_says_the_same", &vars, true, ExitCode::FAILURE) else { return };
    let json = &text[text.find('{').unwrap()..=text.rfind('}').unwrap()];
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let row =
        |name: &str| json["variables"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    let cores = row("NEURON_RT_NUM_CORES");
    assert_eq!((cores["value"].as_str(), cores["text"].as_str()), (Some("0"), Some("four")));
    assert_eq!(cores["bad"].as_array().unwrap().len(), 1);
    assert_eq!(cores["members"][0], serde_json::json!({"record": "cfg", "field": "num_cores", "offset": 12}));
    assert!(row("NEURON_RT_DBG_HW_DECODE_TOGGLE")["value"].is_null());
    assert_eq!(json["unknown"][0]["nearest"], "NEURON_RT_VISIBLE_CORES");
    assert_eq!((json["bad"].as_u64(), json["arch"].is_null()), (Some(1), true));
}
