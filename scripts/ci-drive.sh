#!/bin/sh
# Starts a drive for a job of a CI system, and stops it (docs/howto/ci.md).
#
#   usage: scripts/ci-drive.sh start [-a nvme|loop|file|none|auto] [-d DIR] [-p TRANCHE] [ARGUMENT OF tranche serve...]
#          scripts/ci-drive.sh stop [-d DIR]
#
# `start` returns when the drive is ready and attached, and prints variables as NAME=VALUE, one a line:
#
#   DEVICE          the block device, or the block file, of the drive's first namespace; empty with -a none
#   ATTACHED        how: nvme, loop, file or none
#   TRANCHE_ON      where commands of tranche find the drive
#   TRANCHE_DIR     DIR, with the drive's image, and its messages in the file log
#
# -a says how the drive is attached. nvme: the kernel connects over NVMe/TCP (root, the module nvme-tcp, nvme-cli). loop: a loop device on a block file (root, /dev/fuse,
# loop devices). file: a block file (root, /dev/fuse). none: not at all, and no root is needed. auto: the first of nvme, loop and file that this machine can do.
# Root is taken by sudo where it asks for no password; DEVICE then belongs to this user. DIR is new or empty [default: tranche-drive in $RUNNER_TEMP, $TMPDIR or /tmp].
# TRANCHE is the program [default: $TRANCHE, or the one in PATH].
#
# `stop` detaches and stops the drive, and keeps DIR. It fails, with the drive's messages, if the drive did not end in order.
set -eu
# What programs print is read below.
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

fail() { echo "ci-drive.sh: $*" >&2; exit 1; }
usage() { sed -n '4,5s/^# *//p' "$0" >&2; exit 2; }
[ $# -gt 0 ] || usage
verb=$1
shift
attach=auto
directory=${RUNNER_TEMP:-${TMPDIR:-/tmp}}/tranche-drive
program=${TRANCHE:-tranche}
while :; do
    case ${1-} in
    -a) attach=${2-} ;;
    -d) directory=${2-} ;;
    -p) program=${2-} ;;
    *) break ;;
    esac
    [ $# -ge 2 ] || usage
    shift 2
done
case $attach in nvme | loop | file | none | auto) ;; *) usage ;; esac

if [ "$(id -u)" -eq 0 ]; then
    root=
elif sudo -n true 2>/dev/null; then
    root='sudo -n'
else
    root=no
fi

# Waits until a command succeeds, as long as the drive lives; a minute at most.
await() {
    for _ in $(seq 600); do
        "$@" && return
        [ ! -e "$directory/exit" ] || return 1
        sleep 0.1
    done
    return 1
}

# Each says what is missing for one way to attach a drive; nothing if it can be done.
lacks_root() { [ "$root" != no ] || echo 'root'; }
lacks_nvme() {
    lacks_root
    command -v nvme >/dev/null || echo 'the program nvme (package nvme-cli)'
    [ "$root" = no ] || [ -d /sys/module/nvme_tcp ] || $root modprobe nvme-tcp 2>/dev/null || echo 'the kernel module nvme-tcp'
}
lacks_file() {
    lacks_root
    [ -e /dev/fuse ] || { [ "$root" != no ] && $root modprobe fuse 2>/dev/null && [ -e /dev/fuse ]; } || echo '/dev/fuse'
}
lacks_loop() {
    lacks_file
    [ -e /dev/loop-control ] || { [ "$root" != no ] && $root modprobe loop 2>/dev/null && [ -e /dev/loop-control ]; } || echo '/dev/loop-control'
}
lacks_none() { :; }

choose() {
    if [ "$attach" = auto ]; then
        for attach in nvme loop file; do
            [ -n "$("lacks_$attach")" ] || return 0
        done
        fail "cannot attach a drive here: nvme lacks $(lacks_nvme | paste -sd ,); loop lacks $(lacks_loop | paste -sd ,); file lacks $(lacks_file | paste -sd ,). -a none serves one that is not attached"
    fi
    missing=$("lacks_$attach" | paste -sd ,)
    [ -z "$missing" ] || fail "cannot attach a drive as $attach: this machine lacks $missing"
}

# The block device of the namespace of the controller in `controller`: its own, or with multipath that of its subsystem.
block_device() {
    for place in "/sys/class/nvme/$controller" /sys/class/nvme-subsystem/*; do
        [ "$place" = "/sys/class/nvme/$controller" ] || [ -e "$place/$controller" ] || continue
        for namespace in "$place"/nvme*n*; do
            name=${namespace##*/}
            # nvme0c1n1 is one path to nvme0n1.
            case $name in nvme*c*n*) continue ;; esac
            [ -b "/dev/$name" ] && DEVICE=/dev/$name && return
        done
    done
    return 1
}

# The controller of the kernel that is connected to the drive's port.
connected() {
    for address in /sys/class/nvme/*/address; do
        case $(cat "$address" 2>/dev/null), in
        *"traddr=127.0.0.1,trsvcid=$port,"*)
            controller=${address%/address}
            controller=${controller##*/}
            return
            ;;
        esac
    done
    return 1
}

loop_device() {
    DEVICE=$(losetup --list --noheadings --output NAME,BACK-FILE | awk -v file="$directory/blocks/nvme0n1" '$2 == file { print $1; exit }')
    [ -n "$DEVICE" ] && [ -b "$DEVICE" ]
}

block_file() {
    DEVICE=$directory/blocks/nvme0n1
    $root test -f "$DEVICE"
}

# Detaches and stops the drive, and waits for its end.
end() {
    if [ -s "$directory/controller" ] && [ -d "/sys/class/nvme/$(cat "$directory/controller")" ]; then
        $root nvme disconnect -d "$(cat "$directory/controller")" >>"$directory/log" 2>&1
    fi
    [ -e "$directory/exit" ] || $root kill -TERM "$(cat "$directory/pid")" 2>>"$directory/log"
    for _ in $(seq 600); do
        [ ! -s "$directory/exit" ] || return 0
        sleep 0.1
    done
    return 1
}

no_drive() {
    end || true
    fail "$1: $(tail -n 5 "$directory/log")"
}

start() {
    command -v "$program" >/dev/null || fail "there is no program $program: -p or \$TRANCHE names it"
    choose
    [ "$root" != no ] || root=
    mkdir -p "$directory"
    [ -z "$(ls -A "$directory")" ] || fail "$directory is not empty: -d names another directory"
    directory=$(cd "$directory" && pwd -P)
    as=
    home=$directory
    case $attach in
    nvme) set -- --tcp 127.0.0.1:0 "$@" ;;
    file) set -- --fuse "$directory/blocks" "$@" ;;
    loop) set -- --fuse "$directory/blocks" --loop "$@" ;;
    esac
    case $attach in
    file | loop)
        mkdir "$directory/blocks"
        as=$root
        ;;
    esac
    if [ -n "$as" ]; then
        # Root opens no image and no socket where another user could exchange them.
        home=$($root mktemp -d /var/tmp/tranche-drive.XXXXXXXX)
        echo "$home" >"$directory/home"
        $root chmod 711 "$home"
    fi
    # Its exit status is kept for `stop`. A process of sudo hands signals on.
    # shellcheck disable=SC2016 # the inner shell expands them
    keep='dir=$1; shift; "$@" 2>>"$dir/log" >"$dir/ready" & echo $! >"$dir/pid"; wait $!; echo $? >"$dir/exit"'
    # shellcheck disable=SC2086 # $as is a command, or nothing
    nohup sh -c "$keep" sh "$directory" $as "$(command -v "$program")" \
        serve --image "$home/image" --unix "$home/socket" "$@" </dev/null >/dev/null 2>&1 &
    await grep -qs '^ready' "$directory/ready" || no_drive 'the drive does not start'
    echo "$attach" >"$directory/attached"
    DEVICE=
    case $attach in
    nvme)
        port=$(sed -n 's/.*tcp=[^ ,]*:\([0-9]*\).*/\1/p' "$directory/ready")
        nqn=$(sed -n 's/.*nqn=\([^ ]*\).*/\1/p' "$directory/ready")
        $root nvme connect -t tcp -a 127.0.0.1 -s "$port" -n "$nqn" >>"$directory/log" 2>&1 || no_drive 'the kernel does not connect'
        await connected || no_drive 'the kernel has no controller'
        echo "$controller" >"$directory/controller"
        await block_device || no_drive "the kernel has no block device of $controller"
        ;;
    loop) await loop_device || no_drive 'there is no loop device' ;;
    file) await block_file || no_drive 'there is no block file' ;;
    esac
    if [ -n "$root" ] && [ -n "$as$DEVICE" ]; then
        $root chown "$(id -u)" "$home/socket" ${DEVICE:+"$DEVICE"}
    fi
    printf 'DEVICE=%s\nATTACHED=%s\nTRANCHE_ON=unix://%s\nTRANCHE_DIR=%s\n' "$DEVICE" "$attach" "$home/socket" "$directory"
}

stop() {
    [ -e "$directory/attached" ] || fail "no drive was started in $directory"
    directory=$(cd "$directory" && pwd -P)
    [ "$root" != no ] || root=
    end || fail "the drive does not stop: $(tail -n 5 "$directory/log")"
    status=$(cat "$directory/exit")
    rm "$directory/attached"
    if [ -s "$directory/home" ]; then
        home=$(cat "$directory/home")
        $root mv "$home/image" "$directory/image"
        $root rmdir "$home"
        rm "$directory/home"
    fi
    [ "$status" -eq 0 ] || fail "the drive ended with status $status: $(tail -n 5 "$directory/log")"
}

case $verb in
start) start "$@" ;;
stop) stop ;;
*) usage ;;
esac
