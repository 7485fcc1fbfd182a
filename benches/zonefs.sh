#!/bin/sh
# Writes to the files of zones beside writes to a block file of the same drive, in memory, timing off: 4 KiB, 64 KiB and 1 MiB, one at a
# time and from 4 processes, each with its own zone or its own part of the block file.
#
# Rounds of zones and of the block file are interleaved. Zones are reset and the block file is trimmed before each. Printed are the medians of the rounds,
# and of their ratios: of the rates, and of the processor time that the drive's process took, which depends less on what else runs. Needs
# root, fio and /dev/fuse.
#
#   usage: benches/zonefs.sh [ROUNDS] [path of tranche]        default: 5 target/release/tranche
set -eu
# What programs print is read below.
export LC_ALL=C

rounds=${1:-5}
tranche=${2:-${CARGO_TARGET_DIR:-target}/release/tranche}
here=$(dirname "$0")

fail() { echo "zonefs.sh: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail "needs root"
[ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
for program in fio awk fallocate truncate; do
    command -v $program >/dev/null || fail "$program is missing; run: scripts/setup-debian.sh"
done

# shellcheck source=scripts/serve.sh
. "$here/../scripts/serve.sh"
dir=$(mktemp -d)
drive=
cleanup() {
    [ -z "$drive" ] || { kill "$drive" 2>/dev/null && wait "$drive" 2>/dev/null; } || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# Zones of 96 MiB.
cat >"$dir/drive.toml" <<TOML
[drive]
timing = false

$(one_set 3GiB 25% 'zone = { active = 14 }' 768)

[[namespace]]
size = "512MiB"
lba = 4096
attach = "all"
TOML
mkdir "$dir/files"
serve "$tranche" "$dir/said" --tcp 127.0.0.1:0 --unix "$dir/socket" --fuse "$dir/files" "$dir/drive.toml"
"$tranche" ns create --zoned --size 1GiB --attach --on "unix://$dir/socket" >/dev/null
zones=$dir/files/nvme0n2/seq
for _ in $(seq 100); do
    [ ! -e "$zones/0" ] || break
    sleep 0.1
done
[ -e "$zones/3" ] || fail "no zones: $(tail -3 "$dir/said")"

# Processor time of the drive's process, in ticks (proc(5): utime and stime).
ticks() { sed 's/.*) //' "/proc/$drive/stat" | awk '{ print $12 + $13 }'; }

# load KIND BLOCK JOBS: lines of results. All 96 MiB of each zone are written.
load() {
    set -- "$1" "$2" "$3" "$(for job in $(seq 0 $(($3 - 1))); do
        case $1 in
        zones) echo "--name=$job --filename=$zones/$job" ;;
        block) echo "--name=$job --filename=$dir/files/nvme0n1 --offset=$((job * 96))m" ;;
        esac
    done)"
    for zone in 0 1 2 3; do truncate -s 0 "$zones/$zone"; done
    fallocate --punch-hole --offset 0 --length 512MiB "$dir/files/nvme0n1"
    before=$(ticks)
    # shellcheck disable=SC2086 # options of fio
    fio --output-format=terse --terse-version=3 --ioengine=psync --direct=1 --rw=write --bs="$2" --size=96m --create_on_open=1 $4 >"$dir/out" ||
        fail "fio: $(cat "$dir/out")"
    awk -F ';' -v name="$1" -v kind="$2x$3" '{ sum += $49 } END { print name, kind, sum }' "$dir/out" >>"$dir/results"
    echo "$1-time $2x$3 $(($(ticks) - before))" >>"$dir/results"
}

# Rounds of one kind follow each other, so that each load comes after one of its size: what that has written is given up first.
for block in 4k 64k 1m; do
    for jobs in 1 4; do
        for _ in $(seq "$rounds"); do
            load zones $block $jobs
            load block $block $jobs
        done
    done
done
awk "$(cat "$here/results.awk")"'
    END {
        kinds = split("4kx1 4kx4 64kx1 64kx4 1mx1 1mx4", kind, " ")
        for (k = 1; k <= kinds; k++) {
            iops("zones " kind[k])
            iops("block " kind[k])
            ratio("zones " kind[k], "block " kind[k], 1)
            ratio("zones-time " kind[k], "block-time " kind[k], 1)
        }
    }' "$dir/results"
