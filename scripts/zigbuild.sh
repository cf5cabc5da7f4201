#!/usr/bin/env bash
# Release build against an old glibc: zigbuild.sh TRIPLE.GLIBC. zig is the linker because it carries the old symbol versions.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=${CARGO_TARGET_DIR:-target}/tools/zig
if [ ! -x "$tools/bin/cargo-zigbuild" ] || [ ! -d "$tools/ziglang" ]; then
    pip3 install --quiet --root-user-action=ignore --target "$tools" ziglang cargo-zigbuild
fi
tools=$(cd "$tools" && pwd)
export PATH="$tools/bin:$PATH" PYTHONPATH="$tools${PYTHONPATH:+:$PYTHONPATH}"
export CARGO_ZIGBUILD_ZIG_PATH="$tools/ziglang/zig"
exec cargo zigbuild --release --target "$1" -p nrt -p nrt-tools -p neuron-emu
