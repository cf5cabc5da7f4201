#!/usr/bin/env bash
# Checks the packages: both hold the link chain, headers, nrt.pc, programs and the pytest plugin; the library needs no newer
# glibc than 2.28, has exactly the surface, stays small, a program built with the packaged pkg-config file runs on it, and so do
# the lines of the README for other people's CI.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
out=$(cd target/package && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "test-package: $1" >&2; exit 1; }

tar -C "$work" -xzf "$out/opennrt-$version-x86_64-linux.tar.gz"
dpkg-deb -x "$out/opennrt_${version}_amd64.deb" "$work/deb"
for root in "$work/opennrt-$version-x86_64-linux" "$work/deb/usr"; do
    lib=$root/lib/libnrt.so.2.31.24.0
    [ -f "$lib" ] || die "$lib is missing"
    [ "$(readlink "$root/lib/libnrt.so")" = libnrt.so.1 ] || die "$root/lib/libnrt.so does not point to libnrt.so.1"
    [ "$(readlink "$root/lib/libnrt.so.1")" = libnrt.so.2.31.24.0 ] || die "$root/lib/libnrt.so.1 does not point to the real file"
    [ -f "$root/include/nrt/nrt.h" ] || die "$root/include/nrt/nrt.h is missing"
    [ -f "$root/lib/pkgconfig/nrt.pc" ] || die "$root/lib/pkgconfig/nrt.pc is missing"

    "$root/bin/nrt-abi" check "$lib" || die "$lib has another surface than the table"
    for file in "$lib" "$root"/bin/*; do
        newest=$(readelf --version-info "$file" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
        [ "$(printf '%s\nGLIBC_2.28\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] || die "$file needs $newest, the floor is GLIBC_2.28"
    done
    size=$(stat -c %s "$lib")
    [ "$size" -le $((2 << 20)) ] || die "$lib has $size bytes, the limit is 2 MiB"

    gcc -std=c11 -I "$root/include" examples/hello_nrt.c -L "$root/lib" -lnrt -o "$work/hello"
    NEURON_RT_FAKE_INSTANCE_TYPE=trn2.48xlarge LD_LIBRARY_PATH=$root/lib "$work/hello" | grep -q '64 total' || die "the example does not count 64 cores on $lib"
    NEURON_RT_FAKE_INSTANCE_TYPE=trn1.2xlarge "$root/bin/nrt-info" >/dev/null || die "nrt-info fails on a simulated instance"
    "$root/bin/neuron-emu" --version >/dev/null || die "neuron-emu does not start"
    OPENNRT_PREFIX=$root OPENNRT_TARBALL=$out/opennrt-$version-x86_64-linux.tar.gz OPENNRT_DEB=$out/opennrt_${version}_amd64.deb \
        scripts/pytest.sh -rs tests/py/test_readme.py || die "the lines of the README do not work on $root"
    echo "package $root: ok, library $size bytes, needs up to $newest"
done
