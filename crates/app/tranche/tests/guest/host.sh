#!/bin/sh
# A Linux host with the drive: runs in the guest of scripts/guest.sh. Arguments: address, port, subsystem NQN.
# The drive has one attached namespace of 1 GiB, and room on its first NVM Set. During the last load somebody kills it and
# starts it again.
set -eu

address=$1 port=$2 nqn=$3
fail() { echo "FAILED: $*"; nvme list; dmesg | tail -30; exit 1; }
# Waits up to a minute for a command to succeed.
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
gone() { ! [ -e "$1" ]; }

echo "== discover"
nvme discover -t tcp -a "$address" -s "$port" -o json | grep -q "\"$nqn\"" || fail "discovery does not know $nqn"

echo "== connect"
nvme connect -t tcp -a "$address" -s "$port" -n "$nqn" --reconnect-delay=1 --ctrl-loss-tmo=120
await [ -b /dev/nvme0n1 ]
nvme list-subsys | grep -q live || fail "not live"
[ "$(cat /sys/block/nvme0n1/queue/logical_block_size)" = 4096 ] || fail "block size"
[ "$(blockdev --getsize64 /dev/nvme0n1)" = 1073741824 ] || fail "size $(blockdev --getsize64 /dev/nvme0n1)"
for log in smart-log "endurance-log -g 1" fw-log error-log effects-log; do
    # shellcheck disable=SC2086 # a command and its options
    nvme ${log%% *} /dev/nvme0 $(echo "$log" | cut -s -d ' ' -f 2-) >/dev/null || fail "nvme $log"
done
nvme id-ctrl /dev/nvme0 -o json >/dev/null
nvme id-ns /dev/nvme0n1 -o json >/dev/null
nvme ns-descs /dev/nvme0n1 >/dev/null
nvme id-nvmset /dev/nvme0 >/dev/null

echo "== a namespace comes and goes"
cntlid=$(nvme id-ctrl /dev/nvme0 | awk '$1 == "cntlid" { print $3 }')
nsid=$(nvme create-ns /dev/nvme0 -s 8192 -c 8192 -f 0 --nvmset-id=1 | sed -n 's/.*nsid://p')
nvme attach-ns /dev/nvme0 -n "$nsid" -c "$cntlid" >/dev/null
# The drive sends a Namespace Attribute Changed event, and the kernel looks.
await [ -b "/dev/nvme0n$nsid" ]
dd if=/dev/urandom of=/tmp/data bs=1M count=4 status=none
dd if=/tmp/data of="/dev/nvme0n$nsid" bs=1M oflag=direct status=none
cmp -n 4194304 /tmp/data "/dev/nvme0n$nsid" || fail "what was written"
blkdiscard "/dev/nvme0n$nsid"
echo 3 >/proc/sys/vm/drop_caches
[ -z "$(head -c 4194304 "/dev/nvme0n$nsid" | tr -d '\0' | head -c 1)" ] || fail "discarded blocks are not zero"
nvme format /dev/nvme0 -n "$nsid" --lbaf=1 --force >/dev/null || fail "nvme format"
formatted() { [ "$(cat "/sys/block/nvme0n$nsid/queue/logical_block_size")" = 512 ]; }
await formatted
dd if=/tmp/data of="/dev/nvme0n$nsid" bs=512 count=9 seek=3 oflag=direct status=none
cmp -n 4608 -i 0:1536 /tmp/data "/dev/nvme0n$nsid" || fail "what was written in blocks of 512 bytes"
nvme detach-ns /dev/nvme0 -n "$nsid" -c "$cntlid" >/dev/null
await gone "/dev/nvme0n$nsid"
nvme delete-ns /dev/nvme0 -n "$nsid" >/dev/null

echo "== a file system, and a reset under load"
mkfs.xfs -q -f /dev/nvme0n1
mkdir -p /tmp/mnt
mount /dev/nvme0n1 /tmp/mnt
# A connection that the drive has closed gives SIGPIPE to the program that writes: a Linux host sends from within it.
trap '' PIPE
verify="--verify=crc32c --verify_fatal=1 --verify_state_save=0 --ioengine=libaio --direct=1 --group_reporting --minimal"
# shellcheck disable=SC2086 # a list of options
fio --name=reset --directory=/tmp/mnt --size=24m --rw=randwrite --bssplit=4k/60:16k/30:64k/10 --iodepth=16 $verify >/tmp/fio 2>&1 &
sleep 2
nvme reset /dev/nvme0
wait $! || { cat /tmp/fio; fail "fio --verify over a reset"; }
await grep -q live /sys/class/nvme/nvme0/state

echo "== the drive is killed and comes back"
# shellcheck disable=SC2086
fio --name=killed --directory=/tmp/mnt --size=64m --rw=randwrite --bs=8k --iodepth=16 --fsync=64 $verify >/tmp/fio 2>&1 ||
    { cat /tmp/fio; fail "fio --verify over a crash of the drive"; }
dmesg | grep -q "Successfully reconnected" || fail "the drive was not killed meanwhile"
umount /tmp/mnt
xfs_repair -n /dev/nvme0n1 >/dev/null 2>&1 || fail "xfs_repair"
nvme disconnect -n "$nqn" >/dev/null
await gone /dev/nvme0n1
echo "== all is well"
