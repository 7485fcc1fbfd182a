#!/bin/sh
# Two Linux hosts, one kernel, and the drive's namespaces as their tenants, with nvme-cli alone: runs in the guest of
# scripts/guest.sh and prints a transcript of commands and answers. Arguments: address, port, subsystem NQN. The drive has one
# attached namespace of 1 GiB of 4 KiB blocks, room on its first NVM Set, a drive key, and another namespace in Endurance Group 3,
# which has Flexible Data Placement with four handles.
set -eu
. "$(dirname "$0")/transcript.sh"
# Direct reads and writes of blocks: device, size, count, place.
write_blocks() { dd if=$scratch/data of="$1" bs="$2" count="$3" seek="$4" oflag=direct conv=notrunc status=none; }
read_blocks() { dd if="$1" bs="$2" count="$3" skip="$4" iflag=direct status=none; }
same() { [ "$(read_blocks "$1" "$2" "$3" "$4" | cksum)" = "$(head -c $(($2 * $3)) $scratch/data | cksum)" ]; }
zeros() { [ -z "$(read_blocks "$@" | tr -d '\0' | head -c 1)" ]; }

dd if=/dev/urandom of=$scratch/data bs=64k count=16 status=none
attach 0
attach 1
run nvme list-subsys
cntlid=$(nvme id-ctrl /dev/nvme0 | awk '$1 == "cntlid" { print $3 }')
# Creates a namespace of 32 MiB with a format, attaches it to the first host, waits for its device: $nsid, $ns.
create() {
    run nvme create-ns /dev/nvme0 --nsze=$1 --ncap=$1 --flbas="$2" "${3:---nvmset-id=1}"
    nsid=$(echo "$answer" | sed -n 's/.*nsid://p')
    ns=/dev/nvme0n$nsid
    run nvme attach-ns /dev/nvme0 --namespace-id="$nsid" --controllers="$cntlid"
    await [ -b "$ns" ]
}
discard() {
    run nvme detach-ns /dev/nvme0 --namespace-id="$1" --controllers="$cntlid"
    await gone "/dev/nvme0n$1"
    run nvme delete-ns /dev/nvme0 --namespace-id="$1"
}

about "formats: 512-byte blocks, then protection information that the drive inserts, checks and strips"
create 65536 1
protected=$nsid
[ "$(blockdev --getss "$ns")" = 512 ] || fail "block size $(blockdev --getss "$ns")"
write_blocks "$ns" 512 9 3
same "$ns" 512 9 3 || fail "what was written in blocks of 512 bytes"
run nvme id-ns "$ns" --human-readable
run nvme format "$ns" --lbaf="3" --pi=1 --ms=1 --force
formatted() { [ "$(blockdev --getss "$ns")" = 4096 ]; }
await formatted
run nvme id-ns "$ns"
says 'dps *: 0x1'
# Linux has no block device for formats with metadata here, but passes commands on: PRACT is 8, the checks 1, 2 and 4.
head -c 65536 $scratch/data >$scratch/blocks
run nvme write "$ns" --start-block=5 --block-count=15 --data-size=65536 --data=$scratch/blocks --prinfo=8 --ref-tag=5
run nvme read "$ns" --start-block=5 --block-count=15 --data-size=65536 --data=$scratch/back --prinfo=15 --ref-tag=5
cmp $scratch/blocks $scratch/back || fail "what was written with protection information"
run nvme verify "$ns" --start-block=5 --block-count=15 --prinfo=7 --ref-tag=5
refused 'protection information' nvme verify "$ns" --start-block=5 --block-count=0 --prinfo=1 --ref-tag=6
refused 'application tag' nvme verify "$ns" --start-block=5 --block-count=0 --prinfo=2 --ref-tag=5 \
    --app-tag=1 --app-tag-mask=0xffff

about "commands: Copy, Write Uncorrectable, Compare"
create 8192 0
copied=$nsid
write_blocks "$ns" 4096 8 0
run nvme copy "$ns" --sdlba=100 --slbs=0,4 --blocks=3,3
same "$ns" 4096 8 100 || fail "what was copied"
run nvme write-uncor "$ns" --start-block=100 --block-count=1
refused 'unrecovered|error' nvme read "$ns" --start-block=100 --block-count=0 --data-size=4096 --data=$scratch/back
# Get LBA Status, ATYPE 10h (`nvme get-lba-status` of some versions has a buffer shorter than what it asks for).
run nvme admin-passthru /dev/nvme0 --opcode=0x86 --namespace-id="$nsid" --cdw12=15 --cdw13=0x10000000 --data-len=64 --read
says '64 00 00 00'
write_blocks "$ns" 4096 8 100
same "$ns" 4096 8 100 || fail "what was written over uncorrectable blocks"
head -c 4096 $scratch/data >$scratch/blocks
run nvme compare "$ns" --start-block=100 --block-count=0 --data-size=4096 --data=$scratch/blocks
refused 'compare' nvme compare "$ns" --start-block=101 --block-count=0 --data-size=4096 --data=$scratch/blocks
discard "$copied"

about "Flexible Data Placement"
run nvme fdp configs /dev/nvme0 --endgrp-id=3
run nvme fdp status $(node 0 2)
run nvme write $(node 0 2) --start-block=0 --block-count=0 --data-size=4096 --data=$scratch/blocks --dir-type=2 --dir-spec=1
run nvme fdp update $(node 0 2) --pids=1
run nvme fdp usage /dev/nvme0 --endgrp-id=3
run nvme fdp stats /dev/nvme0 --endgrp-id=3
run nvme fdp events /dev/nvme0 --endgrp-id=3

about "a quota: feature D8h"
printf '\001\002\0\0\0\0\0\0' >$scratch/quota
head -c 8 /dev/zero >>$scratch/quota
# 8 MiB/s of writes.
printf '\000\000\200\000\000\000\000\000' >>$scratch/quota
head -c 40 /dev/zero >>$scratch/quota
run nvme set-feature /dev/nvme0 --namespace-id=1 --feature-id=0xd8 --data-len=64 --data=$scratch/quota --value=0
run nvme get-feature /dev/nvme0 --namespace-id=1 --feature-id=0xd8 --data-len=64 --sel=0
begun=$(cut -d . -f 1 /proc/uptime)
dd if=/dev/zero of=$(node 0 1) bs=1M count=32 oflag=direct status=none
took=$(($(cut -d . -f 1 /proc/uptime) - begun))
echo "32 MiB took $took s"
[ $took -ge 3 ] || fail "32 MiB at 8 MiB/s took $took s"
printf '\001\003\0\0\0\0\0\0' >$scratch/wrong
head -c 56 /dev/zero >>$scratch/wrong
refused 'invalid' nvme set-feature /dev/nvme0 --namespace-id=1 --feature-id=0xd8 --data-len=64 --data=$scratch/wrong --value=0
printf '\001' >$scratch/none
head -c 63 /dev/zero >>$scratch/none
run nvme set-feature /dev/nvme0 --namespace-id=1 --feature-id=0xd8 --data-len=64 --data=$scratch/none --value=0

about "reservations: two hosts, one namespace"
run nvme resv-register $(node 0 1) --nrkey=0x11 --rrega=0 --cptpl=0
run nvme resv-register $(node 1 1) --nrkey=0x22 --rrega=0 --cptpl=0
run nvme resv-acquire $(node 0 1) --crkey=0x11 --rtype=1 --racqa=0
run nvme resv-report $(node 1 1) --eds --numd=63
says 'reg(ctl|strnt)[a-z]* *: *2'
says 'rtype *: *1'
refused 'host identifier' nvme resv-report $(node 1 1) --numd=63
# Linux: EBADE.
refused 'exchange|conflict' write_blocks $(node 1 1) 4096 1 0
run zeros $(node 1 1) 4096 1 0
refused 'conflict' nvme resv-acquire $(node 1 1) --crkey=0x22 --rtype=1 --racqa=0
refused 'conflict' nvme format $(node 1 1) --lbaf=0 --force
run nvme resv-acquire $(node 1 1) --crkey=0x22 --prkey=0x11 --rtype=3 --racqa=1
refused 'exchange|conflict' write_blocks $(node 0 1) 4096 1 0
run write_blocks $(node 1 1) 4096 1 0
run nvme resv-notif-log /dev/nvme0
says 'page type[^:]*: *1'
run nvme resv-register $(node 0 1) --nrkey=0x11 --rrega=0 --cptpl=0
run write_blocks $(node 0 1) 4096 1 0
run nvme resv-release $(node 1 1) --crkey=0x22 --rtype=3 --rrela=0
run nvme resv-notif-log /dev/nvme0
says 'page type[^:]*: *2'
run nvme resv-release $(node 0 1) --crkey=0x11 --rtype=3 --rrela=1
run nvme resv-report $(node 0 1) --eds --numd=63
says 'reg(ctl|strnt)[a-z]* *: *0'

about "logs"
run nvme smart-log /dev/nvme0
run nvme smart-log /dev/nvme0 --namespace-id=1
run nvme endurance-log /dev/nvme0 --group-id=1
run nvme ocp smart-add-log /dev/nvme0
run nvme effects-log /dev/nvme0
run nvme error-log /dev/nvme0 --log-entries=4
run nvme persistent-event-log /dev/nvme0 --action=1 --log_len=4096
run nvme persistent-event-log /dev/nvme0 --action=2

about "erasure: Format and Sanitize"
run nvme format "/dev/nvme0n$protected" --ses=1 --lbaf=0 --force
zeros "/dev/nvme0n$protected" 4096 64 0 || fail "what was erased by Format"
write_blocks "/dev/nvme0n$protected" 4096 64 0
run nvme format "/dev/nvme0n$protected" --ses=2 --lbaf=0 --force
if same "/dev/nvme0n$protected" 4096 64 0; then fail "the namespace has its old key"; fi
write_blocks $(node 0 1) 4096 16 100
run nvme sanitize /dev/nvme0 --sanact=2
sanitized() { nvme sanitize-log /dev/nvme0 | grep -Eqi 'progress.*(65535|100)'; }
await sanitized
run nvme sanitize-log /dev/nvme0
run nvme sanitize /dev/nvme0 --sanact=4
await sanitized
zeros $(node 0 1) 4096 16 100 || fail "what was sanitized"
discard "$protected"
detach
await gone $(node 0 1)
echo "== all is well"
