#!/bin/sh
# A Linux host with drives on its PCI bus: runs in the guest of scripts/guest.sh, with six processors. Arguments: an address and port,
# subsystem NQN, the program `tranche`. PCI devices: 10.0 and 11.0 of the drive of tenants.sh, 12.0 of the drive of upkeep.sh, 13.0 of a drive
# without capacitors, with one attached namespace of 1 GiB; it makes another one. It is killed after a connection to the address.
set -eu
address=$1 port=$2 nqn=$3 tranche=$4
here=$(dirname "$0")
sh "$here/tenants.sh" pci 0000:00:10.0,0000:00:11.0 "$nqn"
sh "$here/upkeep.sh" pci 0000:00:12.0 "$nqn" "$tranche"

device=0000:00:13.0
pci=/sys/bus/pci/devices/$device
disk=/dev/nvme0n1
scratch=$(mktemp -d)
fail() {
    echo "FAILED: $*"
    cat "$scratch/fio" 2>/dev/null
    grep nvme /proc/interrupts || true
    dmesg | tail -40
    exit 1
}
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
gone() { ! [ -e "$1" ]; }
# The block device of a namespace. Linux names them in the order in which it finds them, and looks for all at once.
node() {
    for found in /sys/block/nvme0n*; do
        if [ "$(cat "$found/nsid")" = "$1" ]; then echo "/dev/${found##*/}" && return; fi
    done
    return 1
}
live() { [ "$(cat /sys/class/nvme/nvme0/state)" = live ]; }
# Loads the driver with these parameters, for this device alone. Commands of a drive without power are given up soon.
load() {
    modprobe -r nvme nvme-tcp nvme-core
    modprobe nvme-core multipath=N admin_timeout=4 io_timeout=4
    echo 0 >/sys/bus/pci/drivers_autoprobe
    modprobe nvme "$@"
    echo $device >/sys/bus/pci/drivers/nvme/bind
    await [ -b $disk ]
    await live
}
# Queues with the admin queue.
queues_are() { [ "$(cat /sys/class/nvme/nvme0/queue_count)" = $(($1 + 1)) ] || fail "$(cat /sys/class/nvme/nvme0/queue_count) queues"; }
# Queues with interrupts since the start.
interrupted() { awk -v of="$1" '$NF ~ of { count = 0; for (i = 2; i < NF; i++) if ($i ~ /^[0-9]+$/) count += $i; if (count) queues++ } END { print queues + 0 }' /proc/interrupts; }
verify="--verify=crc32c --verify_fatal=1 --verify_state_save=0 --direct=1 --group_reporting --minimal"
# Each job writes and verifies 4 MiB of its own, on a processor of its own: PRPs, lists of them, and SGLs. Further options follow.
checked() {
    fio --name=checked --filename="$disk" --numjobs=6 --cpus_allowed=0-5 --cpus_allowed_policy=split --offset_increment=16m --size=4m \
        --rw=randwrite --bssplit=4k/60:12k/20:64k/15:512k/5 --iodepth=16 --ioengine=libaio $verify "$@" >"$scratch/fio" 2>&1 ||
        fail "fio --verify $*"
}

echo "== a PCI device"
load
[ "$(cat $pci/class)" = 0x010802 ] || fail "class $(cat $pci/class)"
[ "$(cat /sys/class/nvme/nvme0/transport)" = pcie ] || fail "transport"
[ "$(cat /sys/class/nvme/nvme0/address)" = $device ] || fail "address"
nvme list -o json >"$scratch/list"
grep -q '"ModelNumber" *: *"Tranche' "$scratch/list" && grep -q '"SerialNumber" *: *"TRANCHE0002"' "$scratch/list" || fail "$(cat "$scratch/list")"
[ "$(blockdev --getss $disk) $(blockdev --getsize64 $disk)" = "4096 1073741824" ] || fail "$(blockdev --report $disk)"

echo "== Interrupt Coalescing and Interrupt Vector Configuration (08h, 09h)"
feature() { nvme get-feature /dev/nvme0 --feature-id="$1" --cdw11="$2" | sed 's/.*[cC]urrent value: *\(0x\)\{0,1\}0*//'; }
[ "$(feature 8 0)" = "" ] || fail "08h: $(feature 8 0)"
nvme set-feature /dev/nvme0 --feature-id=8 --value=0x0a05 >/dev/null
[ "$(feature 8 0)" = a05 ] || fail "08h: $(feature 8 0)"
checked --name=coalesced --size=1m
nvme set-feature /dev/nvme0 --feature-id=9 --value=0x10002 >/dev/null
[ "$(feature 9 2) $(feature 9 3)" = "10002 3" ] || fail "09h: $(feature 9 2) $(feature 9 3)"
if nvme get-feature /dev/nvme0 --feature-id=9 --cdw11=999 >/dev/null 2>&1; then fail "09h of a vector that does not exist"; fi
nvme reset /dev/nvme0
await live
[ "$(feature 8 0)" = "" ] || fail "08h after a reset: $(feature 8 0)"

echo "== fio --verify with 6 queues, 16 with queues for reads and polled ones, and 1 with the interrupt pin"
# Linux has a queue for each processor, and at most as many more for reads, and as many polled ones.
queues_are 6
checked
[ "$(interrupted 'nvme0q[1-6]$')" = 6 ] || fail "not all queues were used"
load write_queues=5 poll_queues=5
queues_are 16
checked
checked --ioengine=pvsync2 --hipri --iodepth=1 --size=1m
modprobe -r nvme
echo 0 >$pci/msi_bus
load
queues_are 1
checked --size=1m
[ "$(interrupted 'nvme0q0, nvme0q1$|nvme0q1$')" = 1 ] || fail "the pin was not used"
modprobe -r nvme
echo 1 >$pci/msi_bus
load
queues_are 6

echo "== resets under load: of the controller, and of the function"
fio --name=reset --filename="$disk" --rw=randwrite --offset=256m --size=24m --bssplit=4k/60:16k/30:64k/10 --iodepth=16 --numjobs=2 --offset_increment=64m \
    --rate_iops=,400 --ioengine=libaio $verify >"$scratch/fio" 2>&1 &
fio=$!
sleep 1
kill -0 $fio 2>/dev/null || fail "the load has ended before the resets"
for _ in 1 2; do
    nvme reset /dev/nvme0
    await live
    sleep 0.5
    echo 1 >$pci/reset
    await live
    sleep 0.5
done
wait $fio || fail "fio --verify over resets"

echo "== metadata in a buffer of its own"
separate=/dev/nvme0n2
nvme create-ns /dev/nvme0 --nsze=4096 --ncap=4096 --flbas=3 --dps=0 --nmic=1 >/dev/null
nvme attach-ns /dev/nvme0 --namespace-id=2 --controllers="$(cat /sys/class/nvme/nvme0/cntlid)" >/dev/null
nvme ns-rescan /dev/nvme0
await [ -b $separate ]
nvme id-ns $separate | grep -Eq '^mc *: 0x3$' || fail "MC: $(nvme id-ns $separate)"
head -c 32768 /dev/urandom >"$scratch/data"
head -c 32768 /dev/zero >"$scratch/other"
# A command on eight blocks from LBA 8 on, with files of data and metadata.
on_blocks() {
    command=$1 data=$2 metadata=$3
    shift 3
    nvme "$command" $separate --start-block=8 --block-count=7 --data-size=32768 --data="$data" --metadata-size=64 --metadata="$metadata" "$@"
}
# Data and metadata are those of the files. Further options follow.
has_metadata() {
    on_blocks read "$scratch/read" "$scratch/read-metadata" "$@" >/dev/null
    cmp "$scratch/data" "$scratch/read" && cmp "$scratch/metadata" "$scratch/read-metadata"
}
formatted() {
    nvme format $separate --lbaf=3 --ms=0 --pi="$1" --force >/dev/null
    nvme ns-rescan /dev/nvme0
    await [ "$(blockdev --getsize64 $separate)" = 16777216 ]
}
for type in 1 2 3; do
    formatted $type
    # Linux inserts and checks protection information itself.
    fio --name=protected --filename=$separate --size=16m --rw=randwrite --bssplit=4k/60:12k/20:64k/20 --iodepth=16 --ioengine=libaio \
        --verify=crc32c --verify_fatal=1 --verify_state_save=0 --direct=1 --minimal >"$scratch/fio" 2>&1 || fail "fio --verify of type $type"
    # The drive inserts it (PRACT), the host reads it, and writes the same.
    check="--prinfo=7 --ref-tag=8"
    [ $type != 3 ] || check=--prinfo=6
    nvme write $separate --start-block=8 --block-count=7 --data-size=32768 --data="$scratch/data" --prinfo=8 --ref-tag=8 >/dev/null
    # shellcheck disable=SC2086 # two options
    on_blocks read "$scratch/read" "$scratch/metadata" $check >/dev/null
    # shellcheck disable=SC2086
    on_blocks write "$scratch/data" "$scratch/metadata" $check >/dev/null
    # shellcheck disable=SC2086
    has_metadata $check || fail "protection information of type $type"
    # shellcheck disable=SC2086
    if on_blocks write "$scratch/other" "$scratch/metadata" $check >/dev/null 2>&1; then fail "a guard of other data"; fi
done
formatted 0
head -c 64 /dev/urandom >"$scratch/metadata"
on_blocks write "$scratch/data" "$scratch/metadata" >/dev/null
has_metadata || fail "data and metadata"
on_blocks compare "$scratch/data" "$scratch/metadata" >/dev/null || fail "compare"
head -c 64 /dev/zero >"$scratch/zeros"
if on_blocks compare "$scratch/data" "$scratch/zeros" >/dev/null 2>&1; then fail "compare of other metadata"; fi
nvme flush $separate >/dev/null

# Writes until something goes wrong, which must be soon after.
endless() { timeout 120 fio --name=endless --filename=$disk --offset=256m --size=256m --rw=randwrite --bs=4k --iodepth=32 --numjobs=4 --direct=1 --ioengine=libaio \
    --time_based --runtime=100 --minimal >"$scratch/fio" 2>&1; }
# 4 MiB of a text, written and flushed.
flushed() { yes "$1" | head -c 4194304 | dd of=$disk bs=64k seek="$2" iflag=fullblock oflag=direct conv=fsync status=none; }
same() { [ "$(dd if=$disk bs=64k skip="$2" count=64 iflag=direct status=none | cksum)" = "$(yes "$1" | head -c 4194304 | cksum)" ]; }

# The load has an error, and the device goes when Linux is told so.
fails_and_goes() {
    status=0
    wait $fio || status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] || fail "the load ended with $status"
    echo 1 >$pci/remove
    await gone $pci
    gone $disk || fail "$disk is still there"
}

echo "== the power of the drive is cut under load"
flushed "flushed before the power cut" 8192
endless &
fio=$!
sleep 2
nvme admin-passthru /dev/nvme0 --opcode=0xd0 --cdw11=30000 >/dev/null 2>&1 || true
fails_and_goes
echo 1 >/sys/bus/pci/rescan
await [ -e $pci ]
# No driver can use it before power returns.
back() {
    echo $device >/sys/bus/pci/drivers/nvme/bind
    sleep 1
    node 1
}
await back
await node 2
disk=$(node 1) separate=$(node 2)
same "flushed before the power cut" 8192 || fail "what was flushed before the power cut"
has_metadata || fail "metadata after the power cut"
checked --size=1m

echo "== the drive is killed under load"
flushed "flushed before the drive was killed" 8256
endless &
fio=$!
sleep 2
busybox nc "$address" "$port" </dev/null
fails_and_goes
if dmesg | grep -E "INFO: task .* blocked|BUG: |Oops: "; then fail "the kernel"; fi
echo "== all is well after the kill"
