#!/bin/sh
# Writes to zones over NVMe/TCP beside writes to a conventional namespace of the same drive, on loopback: the drive in memory with timing
# off, pinned to processor 0 (serve --poll), `tranche bench --poll` on processor 1.
#
#   pages    random writes (in order those of 128 KiB) on namespace 1
#   zones    writes to as many zones as there are commands, each at its write pointer
#   appends  Zone Append: all commands go to one zone, in order
#
# All write 4 KiB at queue depth 1, 8 and 32, and 128 KiB at queue depth 8. A zone has one write under way, and 14 zones can be active, so
# that zones are not measured at depth 32. Rounds are interleaved, each measures everything. Printed as medians with their range, and as the
# median of the rounds' ratios beside the goal. Needs 4 GiB of memory.
#
#   usage: benches/zones.sh [ROUNDS] [SECONDS] [path of tranche]        default: 5 3 target/release/tranche
set -eu
# What programs print is read below.
export LC_ALL=C

rounds=${1:-5}
seconds=${2:-3}
tranche=${3:-${CARGO_TARGET_DIR:-target}/release/tranche}

fail() { echo "zones.sh: $*" >&2; exit 1; }
[ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
for program in taskset awk; do
    command -v $program >/dev/null || fail "$program is missing; run: scripts/setup-debian.sh"
done

dir=$(mktemp -d)
drive=
cleanup() {
    [ -z "$drive" ] || { kill "$drive" 2>/dev/null || true; wait "$drive" 2>/dev/null || true; }
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

taskset -c 0 "$tranche" serve --tcp 127.0.0.1:0 --timing off --poll >"$dir/ready" 2>"$dir/errors" &
drive=$!
while ! grep -q ready "$dir/ready"; do
    kill -0 $drive 2>/dev/null || fail "the drive does not start: $(cat "$dir/errors")"
    sleep 0.1
done
TRANCHE_ON=$(sed -n 's/.*tcp=\([^ ]*\).*/tcp:\/\/\1/p' "$dir/ready")
export TRANCHE_ON
"$tranche" ns create --zoned --size 1GiB --attach >/dev/null

# More than the namespaces have, so that memory was touched and collection goes on, as in use.
printf '[fill]\nrw=write\nbs=128k\niodepth=8\nloops=2\n' >"$dir/fill.fio"
"$tranche" bench "$dir/fill.fio" --nsid 1 >/dev/null
printf '[fill]\nzonemode=zbd\nzone_append=1\nrw=write\nbs=128k\niodepth=8\nloops=2\n' >"$dir/fill.fio"
"$tranche" bench "$dir/fill.fio" --nsid 2 >/dev/null

job() { # name bs iodepth
    timed="bs=$2
iodepth=$3
time_based
runtime=$seconds"
    order=randwrite
    [ "$2" = 4k ] || order=write
    printf '[pages]\nrw=%s\nnorandommap\n%s\n' $order "$timed" >"$dir/pages-$1.fio"
    printf '[zones]\nzonemode=zbd\nrw=randwrite\nmax_open_zones=%s\n%s\n' "$3" "$timed" >"$dir/zones-$1.fio"
    printf '[appends]\nzonemode=zbd\nrw=write\nzone_append=1\n%s\n' "$timed" >"$dir/appends-$1.fio"
}
job 4k-1 4k 1
job 4k-8 4k 8
job 4k-32 4k 32
# More than can be active.
rm "$dir/zones-4k-32.fio"
job 128k-8 128k 8
loads='4k-1 4k-8 4k-32 128k-8'

iops() { tr ',{' '\n\n' | awk '
    /^[ \t]*"write"[ \t]*:/ { in_it = 1 }
    /^[ \t]*"iops"[ \t]*:/ && in_it { sub(/.*:/, ""); sum += $0; in_it = 0 }
    END { print sum + 0 }'; }

round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    echo "round $round"
    for load in $loads; do
        for kind in pages zones appends; do
            [ -e "$dir/$kind-$load.fio" ] || continue
            nsid=2
            [ $kind != pages ] || nsid=1
            taskset -c 1 "$tranche" bench "$dir/$kind-$load.fio" --nsid $nsid --poll --output json >"$dir/json"
            # Nothing that the next load finds open.
            [ $nsid = 1 ] || "$tranche" zone finish --nsid 2 --all >/dev/null
            echo "$kind $load $(iops <"$dir/json")" | tee -a "$dir/results"
        done
    done
done

awk -v loads="$loads" "$(cat "$(dirname "$0")/results.awk")"'
    END {
        count = split(loads, load, " ")
        for (l = 1; l <= count; l++) {
            iops("pages " load[l])
            if (n["zones " load[l]]) iops("zones " load[l])
            iops("appends " load[l])
        }
        for (l = 1; l <= count; l++) {
            if (n["zones " load[l]]) ratio("zones " load[l], "pages " load[l], 1)
            ratio("appends " load[l], "pages " load[l], 1)
        }
    }' "$dir/results"
