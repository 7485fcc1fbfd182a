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
set -eu
# What programs print is read below.
export LC_ALL=C

rounds=${1:-7}
seconds=${2:-3}
tranche=${3:-${CARGO_TARGET_DIR:-target}/release/tranche}

fail() { echo "metrics.sh: $*" >&2; exit 1; }
[ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
for program in curl awk; do
    command -v $program >/dev/null || fail "$program is missing"
done

dir=$(mktemp -d)
drive=
scraper=
stop_scraper() { [ -z "$scraper" ] || { kill "$scraper" 2>/dev/null || true; wait "$scraper" 2>/dev/null || true; scraper=; }; }
cleanup() {
    stop_scraper
    [ -z "$drive" ] || { kill "$drive" 2>/dev/null || true; wait "$drive" 2>/dev/null || true; }
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

cat >"$dir/job.fio" <<END
[mixed]
rw=randrw
bs=4k
iodepth=32
size=256m
norandommap
time_based
runtime=$seconds
END

: >"$dir/ready"
: >"$dir/scrapes"
"$tranche" serve --timing off --unix "$dir/s" --metrics 127.0.0.1:0 >"$dir/ready" 2>"$dir/log" &
drive=$!
for _ in $(seq 300); do
    grep -q '^ready' "$dir/ready" && break
    sleep 0.1
done
at=$(sed -n 's/.* metrics=\([^ ]*\).*/\1/p' "$dir/ready")
[ -n "$at" ] || { cat "$dir/log" >&2; fail "the drive does not start"; }

bench() { "$tranche" bench --on "unix://$dir/s" --output json "$dir/job.fio" >"$dir/out"; }
ran() { cat /proc/$drive/task/*/schedstat | awk '{ ran += $1 } END { printf "%d", ran }'; }
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
        ran_before=$(ran)
        if [ $mode = on ]; then scrape & scraper=$!; fi
        bench
        stop_scraper
        ran_after=$(ran)
        echo "$round $mode $(($(commands) - before)) $((ran_after - ran_before))" >>"$dir/results"
    done
done

awk -v seconds="$seconds" '
    function median(list, n,   i, j, t) {
        for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (list[j] < list[i]) { t = list[i]; list[i] = list[j]; list[j] = t }
        return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    }
    { count[$1, $2] = $3; ran[$1, $2] = $4; rounds = $1 > rounds ? $1 : rounds }
    END {
        for (r = 1; r <= rounds; r++) { off[r] = count[r, "off"] / seconds; on[r] = count[r, "on"] / seconds; ratio[r] = on[r] / off[r]
            cost[r] = (ran[r, "on"] / count[r, "on"]) / (ran[r, "off"] / count[r, "off"]) }
        printf "commands/s without scrapes  %.0f\n", median(off, rounds)
        printf "commands/s with scrapes     %.0f\n", median(on, rounds)
        m = median(ratio, rounds)
        printf "ratio                       %.3f (%.3f to %.3f)\n", m, ratio[1], ratio[rounds]
        m = median(cost, rounds)
        printf "processor time a command    %.3f (%.3f to %.3f)\n", m, cost[1], cost[rounds]
    }' "$dir/results"
sort -n "$dir/scrapes" | awk '{ t[NR] = $1 } END { printf "a scrape                    %.1f ms median, %d of them\n", t[int((NR + 1) / 2)] * 1000, NR }'
