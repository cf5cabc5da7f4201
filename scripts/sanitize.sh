#!/usr/bin/env bash
# Builds the library with ThreadSanitizer and lets C programs of tests/c loose on it:
#   sanitize.sh LISTS PROGRAM [ARGUMENT]... [-- PROGRAM [ARGUMENT]...]...
# LISTS is a folder with the lists of symbols and headers that some of the programs include. A race that is found ends
# its program with a report and this script with 1. No report is suppressed.
set -euo pipefail
die() { echo "sanitize: $1" >&2; exit 1; }
[ $# -ge 2 ] || die "name a folder with lists and a program of tests/c"
lists=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
# The programs choose their own instance.
unset "${!NEURON_@}" "${!OPENNRT_@}"

triple=x86_64-unknown-linux-gnu
out=${CARGO_TARGET_DIR:-$PWD/target}/sanitize
mkdir -p "$out"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
std=$(rustc --print sysroot)/lib/rustlib/$triple/lib

# The standard library comes without instrumentation and cannot be built here. What of it matters is either generic, and
# so compiled with our crates, or one of four things that tests/c/unseen.c tells the runtime about.
symbols=$(readelf -sW "$std"/libstd-*.rlib 2>/dev/null)
symbol() { awk -v pattern="^_R.*$1\$" '$NF ~ pattern && !seen++ { print $NF }' <<<"$symbols"; }
contended=$(symbol 5mutex5futex.*5Mutex14lock_contended)
wait=$(symbol 7condvar5futex.*7Condvar4wait)
once=$(symbol 4once5futex.*4Once4call)
[ -n "$contended" ] || die "this toolchain's mutex has no lock_contended any more; look at tests/c/unseen.c"
[ -n "$wait" ] || die "this toolchain's condition has no wait any more; look at tests/c/unseen.c"
[ -n "$once" ] || die "this toolchain's Once has no call any more; look at tests/c/unseen.c"
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -DMUTEX -c tests/c/unseen.c -o "$out/mutex.o" \
    "-DCONTENDED(kind)=kind##$contended" "-DWAIT(kind)=kind##$wait" "-DONCE(kind)=kind##$once"
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -c tests/c/unseen.c -o "$out/fence.o"
objcopy --redefine-sym __tsan_atomic64_fetch_sub=real_tsan_atomic64_fetch_sub \
    --redefine-sym __tsan_atomic_thread_fence=real_tsan_atomic_thread_fence "$std/librustc-stable_rt.tsan.a" "$out/runtime.a"

# The sanitizer flags are unstable; this lets the stable compiler take them.
export RUSTC_BOOTSTRAP=1
flags="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer -Clink-arg=-Wl,--wrap=$contended,--wrap=$wait,--wrap=$once"
flags+=" -Clink-arg=$out/mutex.o"
RUSTFLAGS=$flags cargo build --package nrt --lib --target $triple --target-dir "$out" >"$log" 2>&1 || {
    cat "$log" >&2
    die "the library does not build with ThreadSanitizer"
}
lib=$out/$triple/debug
ln -sf libnrt.so "$lib/libnrt.so.1"

run() {
    local name=$1
    gcc -std=gnu11 -O1 -g -Wall -Wextra -Wno-cast-function-type -D_GNU_SOURCE -fsanitize=thread -Iinclude "-I$lists" \
        -c "tests/c/$name.c" -o "$out/$name.o"
    gcc -rdynamic "$out/$name.o" "$out/fence.o" -o "$out/$name" -L"$lib" -lnrt \
        -Wl,--whole-archive "$out/runtime.a" -Wl,--no-whole-archive -pthread -ldl -lm
    shift
    LD_LIBRARY_PATH=$lib TSAN_OPTIONS=exitcode=66 "$out/$name" "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        die "$name $* failed under ThreadSanitizer"
    }
    echo "ran $name${*:+ $*} under ThreadSanitizer: $(tail -n 1 "$log")"
}

while [ $# -gt 0 ]; do
    program=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do program+=("$1"); shift; done
    [ $# -eq 0 ] || shift
    run "${program[@]}"
done
