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
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5} seconds=${2:-4}
program "${3-}"
place=$(mktemp -d "${4:-.}/scrub.XXXXXX")
later "rm -rf '$place'"

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
job write rw=write bs=128k iodepth=8 size=1g
for kind in read write; do
    job rand$kind rw=rand$kind bs=4k iodepth=8 size=1g norandommap time_based "runtime=$seconds"
done

drive_of() { # arguments of `tranche serve`
    serve --drive "$dir/drive.toml" --image "$place/image" --unix "$dir/s" --no-host-sync "$@"
}
bench() { "$tranche" bench --on "unix://$dir/s" --output json "$dir/$1.fio"; }

drive_of --no-scrub
bench write >/dev/null
end "$drive"
for _ in $(seq "$rounds"); do
    for mode in off default full; do
        case $mode in
        off) drive_of --no-scrub ;;
        default) drive_of ;;
        full) drive_of --scrub-rate 1TiB ;;
        esac
        # Nanoseconds that its threads have run, which other processes on this machine do not change.
        before=$(ran "$drive") && sleep "$seconds" && after=$(ran "$drive")
        echo "$mode $(awk "BEGIN { print ($after - $before) / $seconds / 1e7 }")" >>"$dir/idle"
        for kind in read write; do
            bench rand$kind >"$dir/json"
            result $mode $kind "$(of_json iops $kind <"$dir/json")" >/dev/null
        done
        end "$drive"
    done
done
report "read write" '
    iops("off " p); iops("default " p); iops("full " p)
    ratio("default " p, "off " p, 1)
    ratio("full " p, "off " p, 1)'
awk '{ sum[$1] += $2; n[$1]++ }
    END { for (mode in sum) printf "%-8s %.3f %% of a processor while no host does anything\n", mode, sum[mode] / n[mode] }' "$dir/idle"
