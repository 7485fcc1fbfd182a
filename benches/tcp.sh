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
set -eu
# What programs print is read below.
export LC_ALL=C

rounds=${1:-5}
seconds=${2:-3}
tranche=${3:-${CARGO_TARGET_DIR:-target}/release/tranche}

fail() { echo "tcp.sh: $*" >&2; exit 1; }
[ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
for program in taskset awk; do
    command -v $program >/dev/null || fail "$program is missing; run: scripts/setup-debian.sh"
done

dir=$(mktemp -d)
pids=
poller=
cleanup() {
    [ -z "$poller" ] || kill -CONT "$poller" 2>/dev/null || true
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    # shellcheck disable=SC2086 # a list
    [ -z "$pids" ] || wait $pids 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

job() { # name rw bs iodepth numjobs
    cat >"$dir/$1.fio" <<END
[$1]
rw=$2
bs=$3
iodepth=$4
numjobs=$5
size=256m
norandommap
group_reporting
time_based
runtime=$seconds
END
}
job read-1 randread 4k 1 1
job write-1 randwrite 4k 1 1
job read-32 randread 4k 32 1
job write-32 randwrite 4k 32 1
job read-128 randread 4k 32 4
job write-128 randwrite 4k 32 4
job sequential read 128k 8 1
workloads='read-1 write-1 read-32 write-32 read-128 write-128 sequential'

serve() { # name options...
    name=$1
    shift
    taskset -c 0 "$tranche" serve --tcp 127.0.0.1:0 --timing off "$@" >"$dir/$name.ready" 2>"$dir/$name.errors" &
    pids="$pids $!"
    while ! grep -q ready "$dir/$name.ready"; do
        kill -0 $! 2>/dev/null || fail "the drive does not start: $(cat "$dir/$name.errors")"
        sleep 0.1
    done
    # More than the flash has, so that memory was touched and collection goes on, as in use.
    printf '[fill]\nrw=write\nbs=128k\niodepth=8\nloops=3\n' >"$dir/fill.fio"
    "$tranche" bench "$dir/fill.fio" --on "$(address "$name")" >/dev/null
}
address() { sed -n 's/.*tcp=\([^ ]*\).*/tcp:\/\/\1/p' "$dir/$1.ready"; }

serve sleep
serve poll --poll
poller=${pids##* }
kill -STOP "$poller"

# IOPS of reads and writes together, from fio's JSON or its like.
iops() { tr ',{' '\n\n' | awk '
    /^[ \t]*"(read|write)"[ \t]*:/ { in_it = 1 }
    /^[ \t]*"iops"[ \t]*:/ && in_it { sub(/.*:/, ""); sum += $0; in_it = 0 }
    END { print sum + 0 }'; }

measure() { # name workload
    [ "$1" = sleep ] || kill -CONT "$poller"
    taskset -c 1 "$tranche" bench "$dir/$2.fio" --on "$(address "$1")" --poll --output json >"$dir/json"
    [ "$1" = sleep ] || kill -STOP "$poller"
    echo "$1 $2 $(iops <"$dir/json")" | tee -a "$dir/results"
}

round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    echo "round $round"
    for workload in $workloads; do
        for target in poll sleep; do
            measure "$target" "$workload"
        done
    done
done

# Lines of results: target workload IOPS, as many of each as there were rounds.
awk -v workloads="$workloads" "$(cat "$(dirname "$0")/results.awk")"'
    END {
        loads = split(workloads, load, " ")
        for (w = 1; w <= loads; w++) {
            iops("poll " load[w])
            iops("sleep " load[w])
        }
        for (w = 1; w <= loads; w++) {
            if (load[w] !~ /-1$/) ratio("sleep " load[w], "poll " load[w], 0.75)
        }
    }' "$dir/results"
