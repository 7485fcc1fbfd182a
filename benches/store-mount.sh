#!/bin/sh
# Files of a mounted store on a zoned namespace beside XFS on a conventional namespace of the same drive, in memory, timing off.
#
# Small synced writes (a log): fdatasync after each, appended, or over a file that was written before, from one process and from four, each with a file of its
# own. Large writes: 1 MiB each, fsync at the end; and the same amount straight to zones over the same socket (tranche bench). Large reads.
#
# Rounds are interleaved. Printed are the medians of the rounds, and of their ratios. Needs root, fio, mkfs.xfs and /dev/fuse.
#
#   usage: benches/store-mount.sh [ROUNDS] [path of tranche]        default: 5 target/release/tranche
set -eu
# What programs print is read below.
export LC_ALL=C

rounds=${1:-5}
tranche=${2:-${CARGO_TARGET_DIR:-target}/release/tranche}
here=$(dirname "$0")

fail() { echo "store-mount.sh: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail "needs root"
[ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
for program in fio awk mkfs.xfs losetup mount; do
    command -v $program >/dev/null || fail "$program is missing; run: scripts/setup-debian.sh"
done

# shellcheck source=scripts/serve.sh
. "$here/../scripts/serve.sh"
dir=$(mktemp -d)
drive= store= loop=
cleanup() {
    umount "$dir/xfs" 2>/dev/null || true
    [ -z "$loop" ] || losetup -d "$loop" || true
    for process in $store $drive; do
        kill "$process" 2>/dev/null && wait "$process" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

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
serve "$tranche" "$dir/said" --tcp 127.0.0.1:0 --unix "$dir/socket" --fuse "$dir/files" "$dir/drive.toml"
export TRANCHE_ON="unix://$dir/socket"
"$tranche" ns create --zoned --size 2GiB --max-active 10 --attach >/dev/null
"$tranche" ns create --zoned --size 1GiB --max-active 4 --attach >/dev/null
"$tranche" store format --nsid 2 >/dev/null
"$tranche" store mount --nsid 2 "$dir/store" >"$dir/mounted" 2>&1 &
store=$!
for _ in $(seq 100); do
    grep -q ready "$dir/mounted" && break
    sleep 0.1
done
grep -q ready "$dir/mounted" || fail "$(cat "$dir/mounted")"
loop=$(losetup --find --show --direct-io=on --sector-size 4096 "$dir/files/nvme0n1")
mkfs.xfs -q -f "$loop"
mount "$loop" "$dir/xfs"

# load NAME KIND FIELD UNITS OPTIONS...: a field of what fio prints (its HOWTO, "Terse output") divided by UNITS, summed over jobs.
load() {
    name=$1 kind=$2 field=$3 units=$4
    shift 4
    fio --output-format=terse --terse-version=3 --ioengine=psync --directory="$dir/$name" --name=job --group_reporting "$@" >"$dir/out" ||
        fail "fio: $(cat "$dir/out")"
    awk -F ';' -v name="$name" -v kind="$kind" -v field="$field" -v units="$units" \
        '{ print name, kind, $field / units }' "$dir/out" >>"$dir/results"
}

cat >"$dir/zones.fio" <<FIO
[zones]
rw=write
bs=1m
iodepth=4
zonemode=zbd
size=768m
FIO

synced() { # NAME KIND BLOCK JOBS
    load "$1" "append-$2" 49 1 --rw=write --fallocate=none --bs="$3" --size=4m --number_ios=1000 --fdatasync=1 --numjobs="$4"
    load "$1" "overwrite-$2" 49 1 --rw=write --fallocate=none --bs="$3" --size=4m --number_ios=1000 --fdatasync=1 --numjobs="$4" --overwrite=1
    rm -f "$dir/$1"/job*
}
large() { # NAME
    load "$1" large-write 48 1024 --rw=write --fallocate=none --bs=1m --size=768m --end_fsync=1
    load "$1" large-read 7 1024 --rw=read --bs=1m --size=768m --invalidate=1
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
    awk '/"bw_bytes"/ { gsub(/[^0-9]/, ""); if ($0 + 0 > most) most = $0 + 0 } END { print "zones large-write", most / 1048576 }' "$dir/zones.json" >>"$dir/results"
done
awk "$(cat "$here/results.awk")"'
    END {
        kinds = split("append-512x1 append-512x4 append-4kx1 append-4kx4 overwrite-512x1 overwrite-512x4 overwrite-4kx1 overwrite-4kx4 large-write large-read", kind, " ")
        for (k = 1; k <= kinds; k++) {
            unit = kind[k] ~ /^large/ ? "MiB/s" : "IOPS"
            median_of("store " kind[k], unit)
            median_of("xfs " kind[k], unit)
            ratio("store " kind[k], "xfs " kind[k], 1)
        }
        median_of("zones large-write", "MiB/s")
        # The goal of 0.9 is for the plug-in (store.sh): here the data passes the kernel and FUSE, too.
        ratio("store large-write", "zones large-write")
    }' "$dir/results"
