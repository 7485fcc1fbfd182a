#!/bin/sh
# Writes to the files of zones beside writes to a block file of the same drive, in memory, timing off: 4 KiB, 64 KiB and 1 MiB, one at a
# time and from 4 processes, each with its own zone or its own part of the block file.
#
# Rounds of zones and of the block file are interleaved. Zones are reset and the block file is trimmed before each. Printed are the medians of the rounds,
# and of their ratios: of the rates, and of the processor time that the drive's process took, which depends less on what else runs. Needs
# root, fio and /dev/fuse.
#
#   usage: benches/zonefs.sh [ROUNDS] [path of tranche]        default: 5 target/release/tranche
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5}
program "${2-}"
needs_root
needs fio awk fallocate truncate

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
serve --tcp 127.0.0.1:0 --unix "$dir/socket" --fuse "$dir/files" "$dir/drive.toml"
"$tranche" ns create --zoned --size 1GiB --attach --on "unix://$dir/socket" >/dev/null
zones=$dir/files/nvme0n2/seq
await "the file system of zones" test -e "$zones/3"

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
    before=$(ticks "$drive")
    # shellcheck disable=SC2086 # options of fio
    measured=$(terse write-iops --ioengine=psync --direct=1 --rw=write --bs="$2" --size=96m --create_on_open=1 $4)
    taken=$(($(ticks "$drive") - before))
    result "$1" "$2x$3" "$measured" >/dev/null
    result "$1-time" "$2x$3" "$taken" >/dev/null
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
report "4kx1 4kx4 64kx1 64kx4 1mx1 1mx4" '
    iops("zones " p); iops("block " p)
    ratio("zones " p, "block " p, 1)
    ratio("zones-time " p, "block-time " p, 1)'
