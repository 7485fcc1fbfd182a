#!/bin/sh
# What the scrub of an image costs a host: 4 KiB random reads and writes at queue depth 8 over a Unix socket, without timing.
#
#   off      serve --no-scrub
#   default  serve, which scrubs 4 MiB a second
#   full     serve --scrub-rate 1TiB, which scrubs an eighth of the time
#
# The image has 1 GiB of data. Rounds are interleaved, each measures all three. Printed as medians, as the median of the rounds' ratios,
# and as the share of a processor that the drive takes while no host does anything.
#
#   usage: benches/scrub.sh [ROUNDS] [SECONDS] [path of tranche] [directory]      default: 5 4 target/release/tranche .
set -eu
# What programs print is read below.
export LC_ALL=C

rounds=${1:-5}
seconds=${2:-4}
tranche=${3:-${CARGO_TARGET_DIR:-target}/release/tranche}
here=$(dirname "$0")

[ -x "$tranche" ] || { echo "scrub.sh: $tranche is missing; run: cargo build --release" >&2; exit 1; }
dir=$(mktemp -d "${4:-.}/scrub.XXXXXX")
pid=
stop() { [ -z "$pid" ] || { kill "$pid" 2>/dev/null || true; wait "$pid" || true; pid=; }; }
trap 'stop; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

cat >"$dir/drive.toml" <<END
[drive]
timing = false
[[set]]
media = "nand"
cell = "tlc"
capacity = "1GiB"
spare = "28%"
channels = 4
dies = 8
planes = 1
nand_page = "16KiB"
pages_per_block = 192
rated_cycles = 100000
[[namespace]]
size = "1GiB"
lba = 4096
attach = "all"
END
job() { printf '[x]\nrw=%s\nbs=%s\niodepth=8\nsize=1g\n%s\n' "$1" "$2" "$3" >"$dir/$1.fio"; }
job write 128k ""
job randread 4k "norandommap
time_based
runtime=$seconds"
job randwrite 4k "norandommap
time_based
runtime=$seconds"

serve() {
    "$tranche" serve --drive "$dir/drive.toml" --image "$dir/image" --unix "$dir/s" --no-host-sync "$@" >"$dir/ready" 2>"$dir/log" &
    pid=$!
}
ran() { cat /proc/$pid/task/*/schedstat | awk '{ ran += $1 } END { printf "%d", ran }'; }
bench() { "$tranche" bench --on "unix://$dir/s" --wait 60 --output json "$dir/$1.fio"; }

serve --no-scrub
bench write >/dev/null || { cat "$dir/log" >&2; exit 1; }
stop
: >"$dir/results" >"$dir/idle"
for _ in $(seq "$rounds"); do
    for mode in off default full; do
        case $mode in
        off) serve --no-scrub ;;
        default) serve ;;
        full) serve --scrub-rate 1TiB ;;
        esac
        while ! grep -q ready "$dir/ready"; do sleep 0.1; done
        # Nanoseconds that its threads have run, which other processes on this machine do not change.
        before=$(ran) && sleep "$seconds" && after=$(ran)
        echo "$mode $(awk "BEGIN { print ($after - $before) / $seconds / 1e7 }")" >>"$dir/idle"
        for kind in read write; do
            value=$(bench rand$kind | awk -F '[:,]' '/"iops" *:/ && $2 > 0 { print $2; exit }')
            echo "$mode $kind $value" >>"$dir/results"
        done
        stop
    done
done
awk "$(cat "$here/results.awk")"'
    END {
        split("read write", kinds); split("off default full", modes)
        for (k = 1; k <= 2; k++) {
            for (m = 1; m <= 3; m++) iops(modes[m] " " kinds[k])
            for (m = 2; m <= 3; m++) ratio(modes[m] " " kinds[k], "off " kinds[k], 1)
        }
    }' "$dir/results"
awk '{ sum[$1] += $2; n[$1]++ }
    END { for (mode in sum) printf "%-8s %.3f %% of a processor while no host does anything\n", mode, sum[mode] / n[mode] }' "$dir/idle"
