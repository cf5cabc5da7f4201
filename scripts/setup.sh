#!/usr/bin/env bash
# Checks the platform and installs what a fresh Debian with Rust and gcc lacks.
set -euo pipefail

die() { echo "setup: $1" >&2; exit 1; }

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "OpenNRT builds on x86-64 Linux only and this is $(uname -s)-$(uname -m), use such a machine or container."
command -v cargo >/dev/null || die "cargo is not installed, install Rust 1.91 or later."
command -v gcc >/dev/null || die "gcc is not installed, install it with: apt-get install gcc"

# Debian package for each command the tests and packages need.
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need g++ g++
need python3 python3
need pip3 python3-pip
need dpkg-deb dpkg
need readelf binutils
need valgrind valgrind
need valgrind libc6-dbg
if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "these packages are missing, install them: ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
