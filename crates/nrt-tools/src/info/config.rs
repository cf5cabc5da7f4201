//! `nrt-info --config`: every variable, the value that holds, where it came from and where it goes.

use nrt_core::config::{self, Report, Row};
use serde_json::{Value, json};
use std::{fmt::Write as _, io::Write as _, process::ExitCode};

/// Print the configuration of this environment, as text or as JSON. Works without a device.
///
/// Answers 1 when a value is bad, 0 otherwise.
pub fn run(as_json: bool) -> ExitCode {
    let report = config::report();
    let text = if as_json { format!("{:#}\n", machine(&report)) } else { human(&report) };
    // A reader that went away (`| head`) is no error of the configuration.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if report.bad() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn human(report: &Report) -> String {
    let mut out = String::new();
    write_human(&mut out, report).expect("a String takes any text");
    out
}

fn write_human(out: &mut String, report: &Report) -> std::fmt::Result {
    let backend = match (report.simulated, report.shape) {
        (Some(name), _) => format!("simulated {name}"),
        (None, Some(_)) => "device of this machine".into(),
        (None, None) => "no device, so values that follow the hardware are open".into(),
    };
    write!(out, "Configuration for: {backend}")?;
    if let Some(shape) = report.shape {
        write!(out, " (arch {}, {} cores per device)", shape.arch as u32, shape.cores_per_device)?;
    }
    writeln!(out)?;

    let mut group = "";
    for row in &report.rows {
        if row.group != group {
            group = row.group;
            writeln!(out, "\n{group}")?;
        }
        write_row(out, row)?;
    }

    writeln!(out, "\nopennrt")?;
    for row in &report.own {
        writeln!(out, "  {} = {}  [{}]", row.name, row.value, row.origin)?;
        writeln!(out, "      {}", row.effect)?;
        if let Some(fault) = &row.fault {
            writeln!(out, "      BAD: {fault}")?;
        }
    }

    if !report.strangers.is_empty() {
        writeln!(out, "\nset, but read by nothing")?;
    }
    for stranger in &report.strangers {
        match &stranger.nearest {
            Some(nearest) => writeln!(out, "  {}: no such variable; the nearest is {nearest}", stranger.name)?,
            None => writeln!(out, "  {}: belongs to another release or tool", stranger.name)?,
        }
    }

    match report.bad() {
        0 => writeln!(out, "\nNo bad values."),
        bad => writeln!(out, "\nBad values: {bad}. Each is marked BAD above with what to give."),
    }
}

fn write_row(out: &mut String, row: &Row) -> std::fmt::Result {
    write!(out, "  {} = {}  [{}]", row.name, row.value_text(), row.origin)?;
    for member in &row.members {
        write!(out, "  {}.{}+{}", member.record, member.field, member.offset)?;
    }
    if let Some(reader) = row.reader {
        write!(out, "  {reader}")?;
    }
    if row.security {
        write!(out, "  SECURITY")?;
    }
    writeln!(out)?;
    writeln!(out, "      {}", row.effect)?;
    if let (None, Some(rule)) = (&row.value, row.arch_rule) {
        let given = row.text.as_ref().map_or_else(|| "not set".into(), |text| format!("set to \"{text}\""));
        writeln!(out, "      {given}; rule: {rule}")?;
    }
    for fault in &row.faults {
        let goes_on = if row.tolerated { " (the runtime goes on)" } else { "" };
        writeln!(out, "      BAD: {fault}{goes_on}")?;
    }
    for remark in &row.remarks {
        writeln!(out, "      note: {remark}")?;
    }
    Ok(())
}

fn machine(report: &Report) -> Value {
    let variables: Vec<Value> = report
        .rows
        .iter()
        .map(|row| {
            let members: Vec<Value> = row
                .members
                .iter()
                .map(|member| json!({"record": member.record, "field": member.field, "offset": member.offset}))
                .collect();
            json!({
                "name": row.name,
                "group": row.group,
                "text": row.text,
                "value": row.value,
                "origin": row.origin,
                "arch_rule": row.arch_rule,
                "members": members,
                "reader": row.reader,
                "effect": row.effect,
                "form": row.form,
                "security": row.security,
                "bad": row.faults,
                "notes": row.remarks,
                "tolerated": row.tolerated,
            })
        })
        .collect();
    let own: Vec<Value> = report
        .own
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "value": row.value,
                "origin": row.origin,
                "effect": row.effect,
                "bad": row.fault,
            })
        })
        .collect();
    let unknown: Vec<Value> =
        report.strangers.iter().map(|stranger| json!({"name": stranger.name, "nearest": stranger.nearest})).collect();
    json!({
        "simulated": report.simulated,
        "arch": report.shape.map(|shape| shape.arch as u32),
        "cores_per_device": report.shape.map(|shape| shape.cores_per_device),
        "variables": variables,
        "opennrt": own,
        "unknown": unknown,
        "bad": report.bad(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms carry every variable; the text never runs into escape codes or empty cells.
    #[test]
    fn text_and_json_list_every_variable() {
        let report = config::report();
        let text = human(&report);
        let json = machine(&report);
        let variables = json["variables"].as_array().unwrap();
        assert_eq!(variables.len(), 147);
        for variable in variables {
            let name = variable["name"].as_str().unwrap();
            assert!(text.contains(&format!("  {name} = ")), "{name}");
        }
        assert_eq!(json["opennrt"].as_array().unwrap().len(), 3);
        assert!(!text.contains('\x1b'));
    }
}
