#!/bin/sh
# Files of a mounted store on a zoned namespace beside XFS on a conventional namespace of the same drive, in memory, timing off.
#
# Small synced writes (a log): fdatasync after each, appended, or over a file that was written before, from one process and from four, each with a file of its
# own. Large writes: 1 MiB each, fsync at the end; and the same amount straight to zones over the same socket (tranche bench). Large reads.
#
# Rounds are interleaved. Printed are the medians of the rounds, and of their ratios. Needs root, fio, mkfs.xfs and /dev/fuse.
#
#   usage: benches/store-mount.sh [ROUNDS] [path of tranche]        default: 5 target/release/tranche
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5}
program "${2-}"
needs_root
needs fio awk mkfs.xfs losetup mount

# Zones of 96 MiB.
cat >"$dir/drive.toml" <<TOML
[drive]
timing = false

$(one_set 6GiB 25% 'zone = { active = 14 }' 768)

[[namespace]]
size = "2GiB"
lba = 4096
attach = "all"
TOML
mkdir "$dir/files" "$dir/store" "$dir/xfs"
serve --tcp 127.0.0.1:0 --unix "$dir/socket" --fuse "$dir/files" "$dir/drive.toml"
export TRANCHE_ON="unix://$dir/socket"
"$tranche" ns create --zoned --size 2GiB --max-active 10 --attach >/dev/null
"$tranche" ns create --zoned --size 1GiB --max-active 4 --attach >/dev/null
"$tranche" store format --nsid 2 >/dev/null
background "$tranche" store mount --nsid 2 "$dir/store"
await "the mount" grep -q ready "$said"
attach "$dir/files/nvme0n1"
mkfs.xfs -q -f "$node"
mount "$node" "$dir/xfs"
later "umount '$dir/xfs'"

# load NAME KIND FIELD UNITS OPTIONS...: a field of `terse` divided by UNITS.
load() {
    name=$1 kind=$2 field=$3 units=$4
    shift 4
    measured=$(terse "$field" --ioengine=psync --directory="$dir/$name" --name=job --group_reporting "$@")
    result "$name" "$kind" $((measured / units)) >/dev/null
}

job zones rw=write bs=1m iodepth=4 zonemode=zbd size=768m

synced() { # NAME KIND BLOCK JOBS
    load "$1" "append-$2" write-iops 1 --rw=write --fallocate=none --bs="$3" --size=4m --number_ios=1000 --fdatasync=1 --numjobs="$4"
    load "$1" "overwrite-$2" write-iops 1 --rw=write --fallocate=none --bs="$3" --size=4m --number_ios=1000 --fdatasync=1 --numjobs="$4" --overwrite=1
    rm -f "$dir/$1"/job*
}
large() { # NAME
    load "$1" large-write write-rate 1024 --rw=write --fallocate=none --bs=1m --size=768m --end_fsync=1
    load "$1" large-read read-rate 1024 --rw=read --bs=1m --size=768m --invalidate=1
    rm -f "$dir/$1"/job*
    sync -f "$dir/$1"
}

for _ in $(seq "$rounds"); do
    for block in 512 4k; do
        for jobs in 1 4; do
            synced store "${block}x$jobs" $block $jobs
            synced xfs "${block}x$jobs" $block $jobs
        done
    done
    large store
    large xfs
    "$tranche" zone reset --all --nsid 3 >/dev/null
    "$tranche" bench "$dir/zones.fio" --nsid 3 --output json >"$dir/zones.json" || fail "$(cat "$dir/zones.json")"
    result zones large-write "$(of_json bw_bytes write 1048576 <"$dir/zones.json")" >/dev/null
done
report "append-512x1 append-512x4 append-4kx1 append-4kx4 overwrite-512x1 overwrite-512x4 overwrite-4kx1 overwrite-4kx4 large-write large-read" '
    unit = p ~ /^large/ ? "MiB/s" : "IOPS"
    median_of("store " p, unit); median_of("xfs " p, unit)
    ratio("store " p, "xfs " p, 1)'
# The goal of 0.9 is for the plug-in (store.sh): here the data passes the kernel and FUSE, too.
report large-write 'median_of("zones " p, "MiB/s"); ratio("store " p, "zones " p)'
