#!/bin/sh
# What scrapes cost a host: 4 KiB random reads and writes at queue depth 32 over a Unix socket, without timing.
#
#   off    serve --metrics that nobody scrapes
#   on     the same drive, scraped every 100 ms with curl
#
# One drive, in memory. Rounds are interleaved, each measures both, first the one and then the other. Printed as medians of commands
# per second, and as the median of the rounds' ratios with their range, those of the processor time that the drive took for a command
# among them: on a busy machine they say more. And how long a scrape took, seen from curl.
#
#   usage: benches/metrics.sh [ROUNDS] [SECONDS] [path of tranche]        default: 7 3 target/release/tranche
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-7} seconds=${2:-3}
program "${3-}"
needs curl awk

job mixed rw=randrw bs=4k iodepth=32 size=256m norandommap time_based "runtime=$seconds"
: >"$dir/scrapes"
serve --timing off --unix "$dir/s" --metrics 127.0.0.1:0
at=$(sed -n 's/.* metrics=\([^ ]*\).*/\1/p' "$said")

bench() { "$tranche" bench --on "unix://$dir/s" --output json "$dir/mixed.fio" >"$dir/out"; }
commands() { curl -sf "http://$at/metrics" | awk '/^tranche_namespace_commands_total/ { sum += $2 } END { printf "%d", sum }'; }
scrape() {
    while :; do
        curl -sf -o /dev/null -w '%{time_total}\n' "http://$at/metrics" >>"$dir/scrapes" || true
        sleep 0.1
    done
}

bench
for round in $(seq "$rounds"); do
    # Whichever comes first has it no easier.
    modes="off on"
    [ $((round % 2)) = 0 ] && modes="on off"
    for mode in $modes; do
        before=$(commands)
        ran_before=$(ran "$drive")
        [ "$mode" = off ] || background scrape
        bench
        [ "$mode" = off ] || end "$process"
        ran_after=$(ran "$drive")
        result "$mode" commands $(($(commands) - before)) >/dev/null
        result "$mode" ran $((ran_after - ran_before)) >/dev/null
    done
done

# The point is the length of a load.
report "$seconds" '
    rounds = n["on ran"]
    for (r = 1; r <= rounds; r++) {
        on[r] = value["on commands", r] / p
        off[r] = value["off commands", r] / p
        speed[r] = on[r] / off[r]
        cost[r] = value["on ran", r] / on[r] / (value["off ran", r] / off[r])
    }
    sorted(on, rounds); sorted(off, rounds); sorted(speed, rounds); sorted(cost, rounds)
    printf "commands/s without scrapes  %.0f\n", middle(off, rounds)
    printf "commands/s with scrapes     %.0f\n", middle(on, rounds)
    printf "ratio                       %.3f (%.3f to %.3f)\n", middle(speed, rounds), speed[1], speed[rounds]
    printf "processor time a command    %.3f (%.3f to %.3f)\n", middle(cost, rounds), cost[1], cost[rounds]'
sort -n "$dir/scrapes" | awk '{ t[NR] = $1 } END { printf "a scrape                    %.1f ms median, %d of them\n", t[int((NR + 1) / 2)] * 1000, NR }'
