#!/usr/bin/env bash
# Runs every fuzz target for N seconds under AddressSanitizer: fuzz-smoke.sh [N]. A crash leaves its input in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
tools=$(mkdir -p "${CARGO_TARGET_DIR:-target}/tools" && cd "${CARGO_TARGET_DIR:-target}/tools" && pwd)
export PATH="$tools/bin:$PATH"
command -v cargo-fuzz >/dev/null || cargo install --quiet --locked --root "$tools" cargo-fuzz
# The sanitizer flags are unstable; this lets the stable compiler take them.
export RUSTC_BOOTSTRAP=1
cd fuzz
for target in $(cargo fuzz list); do
    echo "fuzzing $target for $seconds s"
    cargo fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=10 -verbosity=0 -print_final_stats=1 2>&1 | grep -vE '^(INFO|stat::(slowest|peak))' || { echo "fuzzing $target failed, the input is in fuzz/artifacts/$target" >&2; exit 1; }
done
