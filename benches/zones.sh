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
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5} seconds=${2:-3}
program "${3-}"
needs taskset awk

pinned=0
serve --tcp 127.0.0.1:0 --timing off --poll
export TRANCHE_ON="tcp://$on"
"$tranche" ns create --zoned --size 1GiB --attach >/dev/null

# More than the namespaces have, so that memory was touched and collection goes on, as in use.
job fill-1 rw=write bs=128k iodepth=8 loops=2
job fill-2 zonemode=zbd zone_append=1 rw=write bs=128k iodepth=8 loops=2
for nsid in 1 2; do "$tranche" bench "$dir/fill-$nsid.fio" --nsid $nsid >/dev/null; done

points=
# point RW BS IODEPTH: RW is for pages.
point() {
    points="$points $2-$3"
    timed="time_based runtime=$seconds"
    # shellcheck disable=SC2086 # lines
    {
        job "pages-$2-$3" rw="$1" bs="$2" iodepth="$3" norandommap $timed
        # No more zones than can be active.
        [ "$3" -gt 14 ] || job "zones-$2-$3" zonemode=zbd rw=randwrite bs="$2" iodepth="$3" max_open_zones="$3" $timed
        job "appends-$2-$3" zonemode=zbd rw=write bs="$2" iodepth="$3" zone_append=1 $timed
    }
}
point randwrite 4k 1
point randwrite 4k 8
point randwrite 4k 32
point write 128k 8

for round in $(seq "$rounds"); do
    echo "round $round"
    for point in $points; do
        for kind in pages zones appends; do
            [ -e "$dir/$kind-$point.fio" ] || continue
            nsid=2
            [ $kind != pages ] || nsid=1
            taskset -c 1 "$tranche" bench "$dir/$kind-$point.fio" --nsid $nsid --poll --output json >"$dir/json"
            # Nothing that the next load finds open.
            [ $nsid = 1 ] || "$tranche" zone finish --nsid 2 --all >/dev/null
            result $kind "$point" "$(of_json iops write <"$dir/json")"
        done
    done
done

report "$points" 'iops("pages " p); iops("zones " p); iops("appends " p)'
report "$points" 'ratio("zones " p, "pages " p, 1); ratio("appends " p, "pages " p, 1)'
