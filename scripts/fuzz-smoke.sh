#!/usr/bin/env bash
# Runs every fuzz target for N seconds under AddressSanitizer: fuzz-smoke.sh [N]. A find leaves its input in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
tools=$(mkdir -p "${CARGO_TARGET_DIR:-target}/tools" && cd "${CARGO_TARGET_DIR:-target}/tools" && pwd)
export PATH="$tools/bin:$PATH"
command -v cargo-fuzz >/dev/null || cargo install --quiet --locked --root "$tools" cargo-fuzz
# The sanitizer flags are unstable; this lets the stable compiler take them.
export RUSTC_BOOTSTRAP=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
die() { echo "fuzz-smoke: $1" >&2; exit 1; }

cd fuzz
cargo fuzz build >"$log" 2>&1 || { cat "$log" >&2; die "the targets do not build"; }
for target in $(cargo fuzz list); do
    # Whole inputs from the start: a short run has no time to let them grow.
    options=(-max_total_time="$seconds" -len_control=0 -max_len=1024 -rss_limit_mb=4096 -timeout=10 -print_final_stats=1)
    [ "$target" = calls ] || options+=(-dict=texts.dict)
    if ! cargo fuzz run "$target" -- "${options[@]}" >"$log" 2>&1; then
        grep -vE '^(INFO|#[0-9]|.*# Uses|\s+NEW_FUNC)' "$log" | tail -n 80 >&2
        die "$target failed; the input is $(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)"
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    [ "${runs:-0}" -ge 100 ] || die "$target made ${runs:-no} runs in $seconds s, which tests nothing"
    echo "fuzzed $target for $seconds s: $runs runs"
done
