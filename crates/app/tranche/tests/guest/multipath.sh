#!/bin/sh
# A Linux host with two ways to the drive: runs in the guest of scripts/guest.sh. Arguments: address, port, subsystem NQN, and
# the drive's second port, which is non-optimized at first. The drive has one attached namespace of 1 GiB and lets hosts on
# the network inject faults (D1h).
set -eu

address=$1 port=$2 nqn=$3 second=$4
fail() {
    echo "FAILED: $*"
    nvme list-subsys
    grep . /sys/class/nvme/nvme*/state /sys/class/nvme/nvme*/nvme*c*n1/ana_state
    cat /tmp/fio 2>/dev/null
    dmesg | tail -30
    exit 1
}
# Waits up to a minute for a command to succeed.
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
# Fault injection: through which controller, kind, port of the drive, parameter.
inject() {
    nvme admin-passthru "/dev/nvme$1" --opcode=0xd1 --cdw10=$(($3 << 16 | $2)) --cdw13="$4" \
        --cdw14=0xffffffff --cdw15=0xffffffff >/dev/null 2>&1
}
fault() { inject "$@" || fail "fault $*"; }
ana=0x10 down=0x11
optimized=1 non_optimized=2 inaccessible=3 lost=4 change=15
# Whether the path of a controller is in a state, as the kernel knows it.
path_is() { [ "$(cat /sys/class/nvme/nvme"$1"/nvme*c*n1/ana_state)" = "$2" ]; }
controller_is() { [ "$(cat "/sys/class/nvme/nvme$1/state")" = "$2" ]; }
controller_is_not() { ! controller_is "$@"; }
gone() { ! [ -e "$1" ]; }

echo "== two paths, one namespace"
grep -q Y /sys/module/nvme_core/parameters/multipath || fail "this kernel has no native multipath"
connect() { nvme connect -t tcp -a "$address" -s "$1" -n "$nqn" --reconnect-delay=1 --ctrl-loss-tmo=120; }
connect "$port"
await controller_is 0 live
connect "$second"
await controller_is 1 live
await [ -b /dev/nvme0n1 ]
await path_is 0 optimized
await path_is 1 non-optimized
[ "$(ls /sys/class/nvme-subsystem)" = nvme-subsys0 ] || fail "more than one subsystem"
[ "$(cat /sys/block/nvme*n*/wwid | sort -u | wc -l)" = 1 ] || fail "the paths differ in the namespace's identifiers"
! [ -e /dev/nvme1n1 ] || fail "each path is a block device of its own"
nvme list-subsys /dev/nvme0n1 >/tmp/subsystems
grep -q "live optimized" /tmp/subsystems && grep -q "live non-optimized" /tmp/subsystems || {
    cat /tmp/subsystems
    fail "list-subsys"
}
nvme ana-log /dev/nvme1 -o json | grep -q non-optimized || fail "ana-log"

echo "== the drive tells of new states"
# Nothing is written meanwhile: the kernel knows by events alone.
fault 0 $ana 2 $inaccessible
await path_is 1 inaccessible
fault 0 $ana 2 $lost
await path_is 1 persistent-loss
fault 0 $ana 2 $change
await path_is 1 change
fault 0 $ana 2 $optimized
await path_is 1 optimized
path_is 0 optimized || fail "the other port changed, too"

# Writes at a rate, then reads everything back, again and again until what happens meanwhile is over. A Linux host sends commands
# from within the program that writes, and a connection that the drive has closed gives that program SIGPIPE.
load() {
    rm -f /tmp/stop
    trap '' PIPE
    while ! [ -e /tmp/stop ]; do
        fio --name="$1" --filename=/dev/nvme0n1 --offset="$2" --size=16m --rw=randwrite --bs=8k --iodepth=16 --rate_iops=,250 \
            --verify=crc32c --verify_fatal=1 --verify_state_save=0 --ioengine=libaio --direct=1 --minimal >/tmp/fio 2>&1 || exit 1
    done &
    fio=$!
    sleep 2
}
loaded() {
    touch /tmp/stop
    wait $fio || fail "fio --verify: $1"
}

echo "== states change under load"
load states 0
for _ in 1 2 3; do
    fault 1 $ana 1 $inaccessible
    await path_is 0 inaccessible
    fault 1 $ana 2 $change
    await path_is 1 change
    # No path is open: the load waits.
    fault 1 $ana 1 $optimized
    await path_is 0 optimized
    fault 1 $ana 2 $lost
    await path_is 1 persistent-loss
    fault 1 $ana 2 $optimized
    await path_is 1 optimized
done
loaded "over changes of state"

echo "== ports go down under load"
load ports 64m
# Without a port through which to take it down: each goes through itself once, and through the other.
fault 1 $down 1 3000
await controller_is_not 0 live
controller_is 1 live || fail "the other port went down, too"
await controller_is 0 live
await path_is 0 optimized
# The kernel may see the connection close before it looks at the answer, and then gives the command up.
inject 1 $down 2 3000 || true
await controller_is_not 1 live
await controller_is 1 live
loaded "over ports that go down"
[ "$(dmesg | grep -c 'Successfully reconnected')" -ge 2 ] || fail "the ports did not go down"
! dmesg | grep -q "I/O error" || fail "an I/O error"

echo "== a port stalls under load"
# The second path goes through a program that stops: its connections stay open, and nothing comes through. Commands that were under way are in its
# buffers, and come to the drive when it runs again. The drive has closed that controller then, and does not execute them.
nvme disconnect -d nvme1 >/dev/null
await gone /sys/class/nvme/nvme1
python3 - "$address" "$second" <<'PYTHON' &
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", 4421))
def pass_on(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
while True:
    near, _ = listener.accept()
    try:
        far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    except OSError:
        near.close()
        continue
    for ends in ((near, far), (far, near)):
        threading.Thread(target=pass_on, args=ends, daemon=True).start()
PYTHON
proxy=$!
stalling() { nvme connect -t tcp -a 127.0.0.1 -s 4421 -n "$nqn" --keep-alive-tmo=2 --reconnect-delay=1 --ctrl-loss-tmo=120; }
await stalling
await controller_is 1 live
fault 0 $ana 2 $optimized
fault 0 $ana 1 $non_optimized
await path_is 1 optimized
await path_is 0 non-optimized
load stall 128m
# Sectors written through the path of a controller.
written() { awk '{ print $7 }' "/sys/block/nvme0c$1n1/stat"; }
before=$(written 1)
sleep 2
[ "$(written 1)" -gt "$before" ] || fail "the load does not use the path that is to stall"
for _ in 1 2; do
    kill -STOP $proxy
    await controller_is_not 1 live
    # The other path has the load, although it is not the better one.
    before=$(written 0)
    passed() { [ "$(written 0)" -gt $((before + 1000)) ]; }
    await passed
    kill -CONT $proxy
    await controller_is 1 live
    await path_is 1 optimized
done
loaded "over a port that stalls"
! dmesg | grep -q "I/O error" || fail "an I/O error"
nvme disconnect -d nvme1 >/dev/null
kill -9 $proxy
fault 0 $ana 1 $optimized
await gone /sys/class/nvme/nvme1
connect "$second"
await controller_is 1 live

echo "== discovery tells of ports"
# The kernel passes the event on to user space.
python3 - >/tmp/event <<'PYTHON' &
import socket
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
s.bind((0, 1))
s.settimeout(240)
open("/tmp/listening", "w").close()
while True:
    for word in s.recv(65536).split(b"\0"):
        if word.startswith(b"NVME_AEN="):
            print(word.decode(), flush=True)
            raise SystemExit
PYTHON
listener=$!
# An event that nobody hears is the last one until somebody reads the log.
await test -e /tmp/listening
nvme discover -t tcp -a "$address" -s "$port" --persistent -o json >/tmp/discovered
grep -q "\"trsvcid\" *: *\"$port\"" /tmp/discovered && grep -q "\"trsvcid\" *: *\"$second\"" /tmp/discovered ||
    { cat /tmp/discovered; fail "discovery does not list both ports"; }
await grep -q discovery /sys/class/nvme/nvme2/cntrltype
# The kernel asks for events a moment after the controller is there, and nothing shows when: until one comes, again.
for _ in $(seq 60); do
    fault 0 $down 2 1000
    sleep 2
    [ -s /tmp/event ] && break
done
wait $listener || fail "no event"
fault 0 $down 2 120000
grep -q "NVME_AEN=0x70f002" /tmp/event || fail "another event: $(cat /tmp/event)"
nvme discover -t tcp -a "$address" -s "$port" -o json >/tmp/discovered
! grep -q "\"trsvcid\" *: *\"$second\"" /tmp/discovered || { cat /tmp/discovered; fail "a port that is down is listed"; }

nvme disconnect-all
echo "== all is well"
