#!/bin/sh
# Asks one drive the same things with nvme-cli and with `tranche`, and prints the answers: runs in the guest of
# scripts/guest.sh. Arguments: address, port, subsystem NQN, the program `tranche`. The drive has one attached namespace.
set -eu

address=$1 port=$2 nqn=$3 tranche=$4
fail() { echo "FAILED: $*"; dmesg | tail -30; exit 1; }

nvme connect -t tcp -a "$address" -s "$port" -n "$nqn"
for _ in $(seq 300); do [ -b /dev/nvme0n1 ] && break; sleep 0.2; done
# Something to count.
dd if=/dev/urandom of=/dev/nvme0n1 bs=64k count=16 oflag=direct status=none
udevadm settle 2>/dev/null || sleep 1

answer() {
    echo "ANSWERS {\"name\": \"$1\", \"nvme\": \"$2\", \"tranche\": \"$3\", \"theirs\": $(echo "$4" | tr -d '\n'), \"ours\": $(echo "$5" | tr -d '\n')}"
}
# The name of a question, what to ask nvme-cli, what to ask `tranche`.
ask() {
    # shellcheck disable=SC2086 # commands with their options
    theirs=$(nvme $2 -o json) || fail "nvme $2"
    # shellcheck disable=SC2086
    ours=$("$tranche" $3 --on "tcp://$address:$port" --output json) || fail "tranche $3"
    answer "$1" "$2" "$3" "$theirs" "$ours"
}
ask controller "id-ctrl /dev/nvme0" "id"
ask namespace "id-ns /dev/nvme0 -n 1" "id --nsid 1"
ask sets "id-nvmset /dev/nvme0" "id --sets"
ask groups "list-endgrp /dev/nvme0" "id --groups"
ask ana "ana-log /dev/nvme0" "id --ana"
# Its JSON is broken in some versions: made of the text.
logs=$(nvme supported-log-pages /dev/nvme0 | sed -n 's/^LID \(0x[0-9a-f]*\) .*supports \(0x[0-9a-f]*\)$/\1 \2/p' |
    while read -r lid bits; do printf '{"lid_%s ": %d},' "$lid" "$bits"; done)
answer logs supported-log-pages "id --logs" "{\"supported_logs\": [${logs%,}]}" \
    "$("$tranche" id --logs --on "tcp://$address:$port" --output json)"
ask smart "smart-log /dev/nvme0" "smart"
ask endurance "endurance-log /dev/nvme0 -g 1" "smart --nvm-set 1"
ask ocp "ocp smart-add-log /dev/nvme0" "smart --ocp"
ask list "list" "ns list"
echo "SUBSYSTEMS $(nvme list-subsys -o json | tr -d '\n')"
nvme disconnect -n "$nqn" >/dev/null
echo "== all is well"
