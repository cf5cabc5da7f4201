#!/usr/bin/env bash
# Tarball and .deb from a finished release build: package.sh VERSION. Both hold what `make install` installs.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
out=target/package
tools=$(mkdir -p target/tools && cd target/tools && pwd)
export PATH="$tools/bin:$PATH"
command -v cargo-deb >/dev/null || cargo install --quiet --locked --root "$tools" cargo-deb

rm -rf "$out"
mkdir -p "$out"

name=opennrt-$version-x86_64-linux
make -s install PREFIX=/ DESTDIR="$out/$name" >/dev/null
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$out/$name/lib/pkgconfig/nrt.pc"
cp LICENSE README.md docs/compat.md docs/coverage.md "$out/$name/"
# Same bytes for the same input: fixed order, owner and time.
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" -cf - "$name" | gzip -9n > "$out/$name.tar.gz"

make -s install PREFIX=/usr DESTDIR="$out/stage" >/dev/null
cargo deb --quiet --no-build --no-strip -p nrt -o "$out/opennrt_${version}_amd64.deb"
ls -l "$out"/*.tar.gz "$out"/*.deb
