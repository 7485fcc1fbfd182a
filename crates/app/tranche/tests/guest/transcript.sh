# What transcripts of nvme-cli have in common, for the scripts of scripts/guest.sh that print them: `.` it with the address, port and
# subsystem NQN of the drive as $1 to $3. With `pci` as the address, the port is the list of its PCI devices: 0000:00:10.0,0000:00:11.0.
# The guest sees this machine's files: what lies in /tmp is not its own.
scratch=$(mktemp -d)

address=$1 port=$2 nqn=$3
fail() { echo "FAILED: $*"; nvme list; dmesg | tail -30; exit 1; }
# Waits up to a minute for a command to succeed.
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
# The block device of a controller's namespace: Linux looks at namespaces in parallel, so its numbers are not their identifiers.
node() {
    for disk in /sys/block/nvme"$1"n*; do
        [ "$(cat "$disk/nsid" 2>/dev/null)" != "$2" ] || { echo "/dev/${disk##*/}"; return; }
    done
    echo "/dev/nvme$1n$2"
}
gone() { ! [ -e "$1" ]; }
about() { echo; echo "== $*"; }
# A command of the transcript, with its answer, which stays in $answer.
run() {
    echo "\$ $*"
    answer=$("$@" 2>&1) || { echo "$answer"; fail "$*"; }
    echo "$answer"
}
# One that is refused: what the answer must contain, and the command.
refused() {
    wanted=$1
    shift
    echo "\$ $*"
    if answer=$("$@" 2>&1); then echo "$answer"; fail "not refused: $*"; fi
    echo "$answer"
    # Versions differ in how they write what Linux's words and the specification's have in common.
    says "$wanted"
}
# What the last answer must contain, as an extended regular expression.
says() { echo "$answer" | tr '\n' ' ' | grep -Eqi "$1" || fail "this does not say '$1'"; }

about "without multipath, so that each host has block devices of its own"
modprobe -r nvme nvme-tcp nvme-core
if [ "$address" = pci ]; then
    # A command of a drive without power has no answer.
    modprobe nvme-core multipath=N admin_timeout=10 io_timeout=10
    echo 0 >/sys/bus/pci/drivers_autoprobe
    modprobe nvme
else
    modprobe nvme-core multipath=N
    modprobe nvme-tcp
fi
# Connects host 0 or 1, with further options of fabrics.
attach() {
    if [ "$address" = pci ]; then
        echo "$port" | cut -d , -f $(($1 + 1)) >/sys/bus/pci/drivers/nvme/bind
    else
        # What `nvme connect` writes there, with --hostnqn and --hostid; some versions of it take the second host for the first.
        echo "nqn=$nqn,transport=tcp,traddr=$address,trsvcid=$port,hostnqn=nqn.2026-11.test:tenant$1,hostid=0000000$1-1111-4222-8333-444444444444${2:-}" \
            >/dev/nvme-fabrics
    fi
    await [ -b "/dev/nvme${1}n1" ]
}
# All hosts go.
detach() {
    if [ "$address" = pci ]; then
        modprobe -r nvme
        echo 1 >/sys/bus/pci/drivers_autoprobe
    else
        run nvme disconnect -n "$nqn"
    fi
}
