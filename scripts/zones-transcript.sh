#!/bin/sh
# Writes docs/howto/zones-on-linux.md: what Linux says of a zoned namespace, command by command, with nvme-cli, blkzone, fio, zonefs, btrfs and
# f2fs. It serves a drive, boots a Debian kernel in an emulated machine (scripts/guest.sh), and fails if a command fails.
#
#   usage: scripts/zones-transcript.sh [TRANCHE]
#
# TRANCHE is the program, by default target/release/tranche. Needs what scripts/guest.sh needs, and nvme-cli, util-linux-extra, fio, btrfs-progs,
# f2fs-tools.
set -eu
export LC_ALL=C

nqn=nqn.2026-11.io.tranche:drive
about() { printf '\n%s\n\n' "## $*"; }
# A command, with its answer as a block of Markdown, and what it ends with at most.
run() {
    echo "    \$ $*"
    answer=$(sh -c "$*" 2>&1) || { echo "$answer"; echo "FAILED: $*"; exit 1; }
    [ -z "$answer" ] || echo "$answer" | cut -c 1-150 | sed 's/[[:space:]]*$//; s/^/    /'
}
refused() {
    echo "    \$ $*"
    if answer=$(sh -c "$*" 2>&1); then echo "$answer"; echo "FAILED: not refused: $*"; exit 1; fi
    echo "$answer" | sed 's/^/    /'
}
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    echo "FAILED: never happened: $*"
    exit 1
}
load() {
    while read -r module; do insmod "/proc/1/root/modules/$module" 2>/dev/null || true; done <"/proc/1/root/modules/$1.order"
}
guest() {
    await test -e /dev/nvme-fabrics
    echo "== begin"
    about "A zoned namespace"
    run nvme connect -t tcp -a 10.0.2.2 -s "$1" -n $nqn
    await test -b /dev/nvme0n1
    run nvme create-ns /dev/nvme0 --nsze=131072 --ncap=131072 --flbas=0 --nmic=1 --nvmset-id=2 --csi=2
    run nvme attach-ns /dev/nvme0 --namespace-id=2 --controllers="$(cat /sys/class/nvme/nvme0/cntlid)"
    await test -b /dev/nvme0n2
    run "uname -sr; nvme version | head -1"
    run nvme zns list
    run "nvme zns id-ns /dev/nvme0n2 | head -20"
    run "cd /sys/block/nvme0n2/queue && grep . zoned nr_zones chunk_sectors max_open_zones max_active_zones zone_append_max_bytes"
    about "nvme zns"
    run nvme zns open-zone /dev/nvme0n2 --start-lba=2048
    run "head -c 65536 /dev/urandom >/tmp/data"
    run nvme zns zone-append /dev/nvme0n2 --zslba=2048 --data=/tmp/data --data-size=65536
    run nvme zns zone-append /dev/nvme0n2 --zslba=2048 --data=/tmp/data --data-size=65536
    run nvme zns close-zone /dev/nvme0n2 --start-lba=2048
    run nvme zns finish-zone /dev/nvme0n2 --start-lba=4096
    run nvme zns report-zones /dev/nvme0n2 --descs=4
    refused nvme write /dev/nvme0n2 --start-block=2100 --block-count=0 --data-size=4096 --data=/tmp/data
    refused nvme zns open-zone /dev/nvme0n2 --start-lba=4096
    run nvme zns reset-zone /dev/nvme0n2 --select-all
    about "blkzone"
    run dd if=/tmp/data of=/dev/nvme0n2 bs=64k seek=128 oflag=direct status=none
    run blkzone report --offset 16384 --count 2 /dev/nvme0n2
    run blkzone finish --offset 16384 --length 16384 /dev/nvme0n2
    run blkzone report --offset 16384 --count 1 /dev/nvme0n2
    run cmp -n 65536 -i 0:8388608 /tmp/data /dev/nvme0n2
    run blkzone reset /dev/nvme0n2
    about "fio"
    run "fio --name=zbd --filename=/dev/nvme0n2 --zonemode=zbd --rw=randwrite --bs=64k --size=32m --max_open_zones=6 --iodepth=8 --ioengine=libaio \
--direct=1 --verify=crc32c --verify_fatal=1 --verify_state_save=0 | grep -Eo 'err= 0|issued rwts.*'"
    run blkzone reset /dev/nvme0n2
    for fs in zonefs btrfs f2fs; do load $fs; done
    mkdir -p /tmp/mnt
    about "zonefs"
    echo "Debian has no \`mkzonefs\` here. The script writes the super block itself, into zone 0, and finishes that zone."
    echo
    python3 - >/tmp/super <<'SUPER'
import struct, sys, zlib
def block(crc):
    return struct.pack("<II64s16sQIII", 0x5A4F4653, crc, b"", b"t" * 16, 0, 0, 0, 0o640).ljust(4096, b"\0")
sys.stdout.buffer.write(block(zlib.crc32(block(0)) ^ 0xFFFFFFFF))
SUPER
    run dd if=/tmp/super of=/dev/nvme0n2 bs=4096 oflag=direct status=none
    run blkzone finish --offset 0 --length 16384 /dev/nvme0n2
    run mount -t zonefs -o explicit-open /dev/nvme0n2 /tmp/mnt
    run "ls -l /tmp/mnt/seq | head -4"
    run dd if=/tmp/data of=/tmp/mnt/seq/5 bs=64k oflag=direct,append conv=notrunc status=none
    run "stat -c 'size %s, blocks %b' /tmp/mnt/seq/5"
    run cmp /tmp/data /tmp/mnt/seq/5
    run truncate -s 0 /tmp/mnt/seq/5
    run "stat -c 'size %s, blocks %b' /tmp/mnt/seq/5"
    run umount /tmp/mnt
    run blkzone reset /dev/nvme0n2
    about "btrfs"
    run "mkfs.btrfs -f -O zoned /dev/nvme0n2 | grep -E 'Zoned|Zone size|Filesystem size|Node size'"
    run mount -t btrfs /dev/nvme0n2 /tmp/mnt
    run "cp /tmp/data /tmp/mnt/file && sync && cmp /tmp/data /tmp/mnt/file"
    run "blkzone report /dev/nvme0n2 | grep -v '(em)'"
    run umount /tmp/mnt
    run blkzone reset /dev/nvme0n2
    about "f2fs, with its metadata on a conventional namespace"
    run "mkfs.f2fs -f -m -c /dev/nvme0n2 /dev/nvme0n1 | grep -Ei 'zone|host-managed|format successful'"
    run mount -t f2fs /dev/nvme0n1 /tmp/mnt
    run "cp /tmp/data /tmp/mnt/file && sync && cmp /tmp/data /tmp/mnt/file"
    run "df -h /tmp/mnt | tail -1"
    run umount /tmp/mnt
    run nvme disconnect -n $nqn
    echo "== end"
}
if [ "${1-}" = --in-guest ]; then
    guest "$2"
    exit
fi

# shellcheck source=scripts/serve.sh
. "$(dirname "$0")/serve.sh"
program "${1-}"
cat >"$dir/drive.toml" <<'TOML'
[drive]
write_buffer = "8MiB"
[[set]]
media = "nand"
cell = "tlc"
capacity = "512MiB"
spare = "28%"
channels = 4
dies = 4
planes = 2
nand_page = "16KiB"
pages_per_block = 48
rated_cycles = 3000
[[set]]
media = "nand"
cell = "tlc"
capacity = "768MiB"
spare = "60%"
channels = 2
dies = 4
planes = 2
nand_page = "4KiB"
pages_per_block = 192
rated_cycles = 3000
zone = { active = 17 }
[[namespace]]
set = 1
size = "256MiB"
lba = 4096
TOML
serve --drive "$dir/drive.toml" --tcp 127.0.0.1:0
"$root/scripts/guest.sh" sh "$root/scripts/zones-transcript.sh" --in-guest "$port" | tr -d '\r' >"$dir/answers"
grep -q '^== end' "$dir/answers" || { tail -20 "$dir/answers" >&2; fail "a command failed in the guest"; }
{
    cat <<'HEAD'
# Zones on Linux: a transcript

Every command below ran in a Linux guest, on a drive that `tranche serve` shows over NVMe/TCP. `scripts/zones-transcript.sh` wrote this page. [Zones](zones.md) explains the words.
The test `a_linux_host_uses_zones` does the same and more: it cuts the power in between, compares all data, and uses dm-zoned.
HEAD
    sed '/^== begin/d; /^== end/,$d' "$dir/answers"
} >"$root/docs/howto/zones-on-linux.md"
