#!/bin/sh
# NVMe/TCP on loopback: the target pinned to processor 0, the load generator to processor 1.
#
#   poll      a drive in memory, timing off, that never sleeps (serve --poll), under tranche bench --poll
#   sleep     the same drive as it is by default, under the same load
#
# All get the same job files: 4 KiB random reads and writes at queue depth 1, 32, and 128 over four connections, and
# sequential reads of 128 KiB. Rounds are interleaved, each measures everything. Printed as medians with their range, and as
# the median of the rounds' ratios beside the goal. Beside SPDK's target: benches/spdk.sh. Needs 4 GiB of memory.
#
#   usage: benches/tcp.sh [ROUNDS] [SECONDS] [path of tranche]        default: 5 3 target/release/tranche
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5} seconds=${2:-3}
program "${3-}"
needs taskset awk

points=
# point NAME RW BS IODEPTH NUMJOBS
point() {
    points="$points $1"
    job "$1" rw="$2" bs="$3" iodepth="$4" numjobs="$5" size=256m norandommap group_reporting time_based runtime="$seconds"
}
point read-1 randread 4k 1 1
point write-1 randwrite 4k 1 1
point read-32 randread 4k 32 1
point write-32 randwrite 4k 32 1
point read-128 randread 4k 32 4
point write-128 randwrite 4k 32 4
point sequential read 128k 8 1
# More than the flash has, so that memory was touched and collection goes on, as in use.
job fill rw=write bs=128k iodepth=8 loops=3

pinned=0
start() { # options of `tranche serve`
    serve --tcp 127.0.0.1:0 --timing off "$@"
    "$tranche" bench "$dir/fill.fio" --on "tcp://$on" >/dev/null
}
start
sleep_on=$on
start --poll
poll_on=$on
# Beside the other drive it would take time of the processor.
kill -s STOP "$drive"

for round in $(seq "$rounds"); do
    echo "round $round"
    for name in $points; do
        kill -s CONT "$drive"
        taskset -c 1 "$tranche" bench "$dir/$name.fio" --on "tcp://$poll_on" --poll --output json >"$dir/json"
        kill -s STOP "$drive"
        result poll "$name" "$(of_json iops 'read|write' <"$dir/json")"
        taskset -c 1 "$tranche" bench "$dir/$name.fio" --on "tcp://$sleep_on" --poll --output json >"$dir/json"
        result sleep "$name" "$(of_json iops 'read|write' <"$dir/json")"
    done
done

report "$points" 'iops("poll " p); iops("sleep " p)'
report "$points" 'if (p !~ /-1$/) ratio("sleep " p, "poll " p, 0.75)'
