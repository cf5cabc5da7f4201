//! The report as a table for people.

use super::{InitReport, Report, Span};
use std::fmt::{Display, Write};

/// `3`, or `0-3`.
impl Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// Numbers in the order given, neighbours folded: `0-3, 7`.
fn folded(list: &[u32]) -> String {
    let runs = list.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let spans = runs.map(|run| Span { first: run[0], last: run[run.len() - 1] }.to_string());
    spans.collect::<Vec<_>>().join(", ")
}

fn joined(list: &Option<Vec<u32>>) -> String {
    match list {
        None => "not readable".to_owned(),
        Some(list) if list.is_empty() => "none".to_owned(),
        Some(list) => list.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn gib(mib: u64) -> String {
    if mib.is_multiple_of(1024) { format!("{} GiB", mib / 1024) } else { format!("{mib} MiB") }
}

/// The whole report, lines ended by a line feed.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<18}{value}");
    };
    line("Backend", format!("{}: {}", report.backend.kind, report.backend.meaning));
    let mark = if report.product_is_inferred { ", numbers inferred from its siblings" } else { "" };
    line("Product", format!("{}{mark}", report.product.as_deref().unwrap_or("not readable")));
    line(
        "Instance",
        match &report.instance {
            None => "unknown".to_owned(),
            Some(i) => format!("family {} ({}), size {} ({})", i.family, i.family_name, i.size, i.size_name),
        },
    );
    let identity = report.instance.as_ref().map_or(String::new(), |i| {
        let revision = if i.device_revision.is_empty() { "none" } else { &i.device_revision };
        format!(", name {}, device revision {revision}", i.arch_name)
    });
    line("Architecture", format!("{} ({}){identity}", report.architecture, report.architecture_codename));
    line("Devices", report.devices.len().to_string());
    line(
        "Device memory",
        format!("{} per device, {} in total", gib(report.memory_mib_per_device.into()), gib(report.memory_mib_total)),
    );
    line(
        "Physical cores",
        format!("{} in total, {} per device", report.physical_cores_total, report.physical_cores_per_device),
    );
    let logical = &report.logical_cores;
    let each = logical.physical_cores_per_logical_core;
    let plural = if each == 1 { "" } else { "s" };
    line("Logical cores", format!("{} in total, each of {each} physical core{plural}", logical.total));
    let by = match (logical.visible_by, &logical.visible_list) {
        (Some(variable), Some(list)) => format!(" ({variable}: {})", folded(list)),
        (Some(variable), None) => format!(" ({variable})"),
        (None, _) => " (all)".to_owned(),
    };
    line("Visible cores", format!("{}{by}", logical.visible));
    line(
        "nrt_init",
        match &report.init {
            InitReport::Takes { logical_cores, physical_cores } => {
                format!("takes logical cores {logical_cores} (physical {physical_cores}) when they are free")
            }
            InitReport::Refuses { status, reason } => format!("fails with {status}: {reason}"),
        },
    );
    let _ = writeln!(out, "\n{:>6}  {:<13}  {:<14}  Connected devices", "Device", "Logical cores", "Physical cores");
    for d in &report.devices {
        let (logical, physical) = (d.logical_cores.to_string(), d.physical_cores.to_string());
        let _ = writeln!(out, "{:>6}  {logical:<13}  {physical:<14}  {}", d.index, joined(&d.connected_devices));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_folded_and_the_order_is_kept() {
        assert_eq!(folded(&[0, 1, 2, 3, 7, 5, 6]), "0-3, 7, 5-6");
        assert_eq!(folded(&[4]), "4");
        assert_eq!(folded(&[4, 4]), "4, 4");
        assert_eq!(folded(&[]), "");
        assert_eq!(folded(&[u32::MAX, 0]), "4294967295, 0");
    }

    #[test]
    fn memory_is_shown_in_whole_gib_or_exactly() {
        assert_eq!(gib(96 * 1024), "96 GiB");
        assert_eq!(gib(1536 * 1024), "1536 GiB");
        assert_eq!(gib(100), "100 MiB");
    }

    #[test]
    fn unknown_links_and_no_links_differ() {
        assert_eq!(joined(&None), "not readable");
        assert_eq!(joined(&Some(vec![])), "none");
        assert_eq!(joined(&Some(vec![12, 1, 3, 4])), "12, 1, 3, 4");
    }
}
