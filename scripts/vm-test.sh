#!/usr/bin/env bash
# Runs the library on the real kernel driver: a Linux guest under QEMU (TCG, no KVM needed) with emulated devices behind
# vfio-user. docs/vm.md says what the inputs must be. Without them it says so and succeeds.
#
#   KERNEL     bzImage          NEURON_KO  module built for it         QEMU  qemu-system-x86_64, 10.1 or later
#   INSTANCES  products, default trn1.2xlarge trn1.32xlarge inf2.xlarge trn2.3xlarge trn2.48xlarge
#   MEMORY     of the guest, default 4G                                  SECONDS_PER_GUEST  limit, default 600
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "vm-test: skipped, $1; see docs/vm.md."; exit 0; }
die() { echo "vm-test: $1" >&2; exit 1; }

for input in KERNEL NEURON_KO; do
    [ -n "${!input:-}" ] || skip "$input is not given"
    [ -r "${!input}" ] || skip "${!input} ($input) cannot be read"
done
QEMU=${QEMU:-qemu-system-x86_64}
command -v "$QEMU" >/dev/null || skip "$QEMU (QEMU) cannot be run"
[[ $("$QEMU" -device help 2>/dev/null) == *'"vfio-user-pci"'* ]] || skip "$QEMU has no vfio-user-pci, which comes with QEMU 10.1"
command -v cpio >/dev/null || skip "cpio is not installed"

work=$(mktemp -d)
emulator=
finish() {
    [ -z "$emulator" ] || kill "$emulator" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

cargo build --quiet -p nrt -p neuron-emu
target=${CARGO_TARGET_DIR:-target}/debug

# The guest: the module, the library and the client with what they need, and a first process that needs nothing.
root=$work/root
mkdir -p "$root/lib"
cp "$NEURON_KO" "$root/neuron.ko"
cp "$target/libnrt.so" "$root/lib/libnrt.so.1"
gcc -std=gnu11 -Wall -Wextra -Werror -O1 -static tests/vm/init.c -o "$root/init"
gcc -std=gnu11 -Wall -Wextra -Werror -O1 -I include tests/vm/client.c "$target/libnrt.so" -o "$root/client"
ldd "$root/client" "$root/lib/libnrt.so.1" | grep -o '/[^ ]*' | grep -v -e ':$' -e libnrt | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
mkdir -p "$root/dev"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initramfs.gz"

# Number of the instance family in include/nrt/nrt.h.
family() {
    local name=${1%%.*}
    sed -n "s/^ *NRT_INSTANCE_${name^^} = \([0-9]*\),/\1/p" include/nrt/nrt.h
}

guest() {
    local instance=$1 sockets=$work/$1 log=$work/$1.log ready=$work/$1.ready
    local -a devices=()
    mkfifo "$ready"
    "$target/neuron-emu" vfio-user --instance "$instance" --socket-dir "$sockets" >"$ready" &
    emulator=$!
    local line=
    exec 3<"$ready"
    read -r line <&3 || true
    [[ $line == ready:* ]] || die "neuron-emu does not serve $instance"
    local count=0
    while [ -S "$sockets/neuron$count.sock" ]; do
        devices+=(-device "{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"$sockets/neuron$count.sock\"}}")
        count=$((count + 1))
    done
    timeout "${SECONDS_PER_GUEST:-600}" "$QEMU" -nodefaults -no-reboot -display none -serial stdio \
        -machine q35,memory-backend=mem -object "memory-backend-memfd,id=mem,size=${MEMORY:-4G},share=on" \
        -accel tcg,thread=multi -cpu max -smp 2 -smbios "type=1,product=$instance" \
        -kernel "$KERNEL" -initrd "$work/initramfs.gz" \
        -append "console=ttyS0 panic=-1 devices=$count family=$(family "$instance")" \
        "${devices[@]}" </dev/null >"$log" 2>&1 || true
    kill "$emulator"
    wait "$emulator" || die "neuron-emu did not end cleanly after $instance"
    emulator=
    exec 3<&-
    if tr -d '\r' <"$log" | grep -qx 'vm-test: ok'; then
        echo "vm-test: $instance, $count devices: ok"
    else
        tail -n 40 "$log"
        die "$instance failed, its last lines are above"
    fi
}

for instance in ${INSTANCES:-trn1.2xlarge trn1.32xlarge inf2.xlarge trn2.3xlarge trn2.48xlarge}; do
    guest "$instance"
done
