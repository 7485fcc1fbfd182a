#!/bin/sh
# Boots a stock Debian kernel in an emulated machine (QEMU, no KVM, no root needed), with this machine's files as its own,
# and runs a command there: a real Linux NVMe host for the drive under test.
#
#   usage: scripts/guest.sh [-t SECONDS] [-p PORT] [-c PROCESSORS] [-v SOCKET]... COMMAND [ARGUMENT...]
#
# The command runs as root of the guest. It sees this machine's root file system read-only under a layer in memory that is
# gone afterwards, so that nvme-cli, fio and mkfs of this machine work there; this machine's loopback is 10.0.2.2. Its
# output comes out here, and its exit status is ours; 124 if it took longer than SECONDS (600), 77 if no kernel can be had.
# With PORT, 127.0.0.1:PORT here is port 4420 there: the kernel can be an NVMe target, too. The guest has 2 PROCESSORS.
# Each SOCKET of `tranche serve --pci` is a PCI device, at 0000:00:10.0 and the following slots. scripts/qemu.sh fetches the QEMU for it.
#
# Needs qemu-system-x86, busybox-static, cpio, kmod, xz-utils. The kernel's package (6.12; Debian 12's own 6.1 lacks NVMe
# authentication and TLS) is fetched and unpacked once, to target/guest.
set -eu
# What programs print is read below.
export LC_ALL=C

limit=600
forward=
processors=2
sockets=
newline='
'
while getopts t:p:c:v: option; do
    case $option in
    t) limit=$OPTARG ;;
    p) forward=,hostfwd=tcp:127.0.0.1:$OPTARG-:4420 ;;
    c) processors=$OPTARG ;;
    v) sockets=$sockets$OPTARG$newline ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "guest.sh: $*" >&2; exit 1; }
for program in qemu-system-x86_64 busybox cpio modprobe xz; do
    command -v $program >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null ||
        fail "$program is missing: apt-get install qemu-system-x86 busybox-static cpio kmod xz-utils"
done
PATH=$PATH:/usr/sbin:/sbin

root=$(cd "$(dirname "$0")/.." && pwd)
qemu=qemu-system-x86_64
[ -z "$sockets" ] || qemu=$("$root/scripts/qemu.sh") || exit $?
# Another version of this script makes its own.
cache=${CARGO_TARGET_DIR:-$root/target}/guest/$(cksum <"$0" | cut -d ' ' -f 1)
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# The kernel and the modules that the guest needs, in a file system in memory.
prepare() {
    # Debian 12 has 6.12 beside its own kernel; later ones have it, or a newer one, as theirs.
    fetch() {
        package=$(apt-cache depends linux-image-6.12-amd64 linux-image-amd64 2>/dev/null |
            awk '$1 == "Depends:" { print $2; exit }')
        [ -n "$package" ] && (cd "$work" && apt-get download -q "$package" >/dev/null 2>"$work/apt")
    }
    # The package lists may be older than what the archive still has.
    fetch || { apt-get update -q >/dev/null 2>&1 && fetch; } || {
        echo "guest.sh: cannot fetch a kernel (linux-image-6.12-amd64): $(tail -1 "$work/apt" 2>/dev/null)" >&2
        exit 77
    }
    dpkg -x "$work/$package"_*.deb "$work/kernel"
    release=$(ls "$work/kernel/lib/modules")
    depmod -b "$work/kernel" "$release"
    modules=lib/modules/$release
    mkdir -p "$work/tree/bin" "$work/tree/sbin" "$work/tree/$modules"
    cp "$(command -v busybox)" "$work/tree/bin/busybox"
    # What the kernel calls for a module.
    ln -s ../bin/busybox "$work/tree/sbin/modprobe"
    # The line after the first is for authentication and TLS.
    for module in virtio_pci virtio_net 9pnet_virtio 9p overlay nvme nvme_tcp nvmet nvmet_tcp nbd ublk_drv null_blk \
        dh_generic sha256_generic sha512_generic hmac tls gcm ccm ctr ghash_generic aes_generic \
        xfs ext4 zonefs btrfs f2fs dm-zoned dm-cache dm-cache-smq; do
        modprobe -d "$work/kernel" -S "$release" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$work/list"
    while read -r path; do
        case $path in
        *.xz) xz -dc "$path" >"$work/tree/$modules/$(basename "$path" .xz)" ;;
        *) cp "$path" "$work/tree/$modules/" ;;
        esac
    done <"$work/list"
    cp "$work/kernel/$modules"/modules.builtin* "$work/tree/$modules/"
    depmod -b "$work/tree" "$release" 2>/dev/null
    cat >"$work/tree/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /lower /memory /new
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
$b modprobe -a virtio_net 9pnet_virtio 9p overlay nvme_tcp
$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose root /lower || echo "guest: no root"
$b mount -t tmpfs -o size=70% memory /memory
$b mkdir /memory/upper /memory/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work overlay /new
for dir in proc sys dev; do $b mount --rbind /$dir /new/$dir; done
$b mkdir -p /new/lib/modules
$b mount --bind /lib/modules /new/lib/modules
$b mount -t tmpfs run /new/run
$b ip link set lo up
$b ip addr add 10.0.2.15/24 dev eth0
$b ip link set eth0 up
$b ip route add default via 10.0.2.2
# When random numbers are ready, the kernel patches its own code. Emulated processors that run this code meanwhile can die of it (TCG with threads). So that
# happens before the command.
$b dd if=/dev/random of=/dev/null bs=1 count=1 2>/dev/null
# What to do comes as a file of its own, appended to this file system.
$b cp /command /new/tmp/command
echo
echo "guest: running"
$b chroot /new /bin/sh /tmp/command </dev/null
echo "guest: exit status $?"
$b poweroff -f
INIT
    chmod +x "$work/tree/init"
    (cd "$work/tree" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1) >"$work/initrd"
    # Another archive may follow only at a multiple of four bytes.
    truncate -s %512 "$work/initrd"
    cp "$work/kernel/boot/vmlinuz-$release" "$work/vmlinuz"
    # Others may prepare or boot at the same time: each file is there whole, or not at all.
    for file in initrd vmlinuz; do
        cp "$work/$file" "$cache/$file.$$"
        mv "$cache/$file.$$" "$cache/$file"
    done
}
[ -e "$cache/vmlinuz" ] && [ -e "$cache/initrd" ] || prepare

# One word after the other, quoted for the guest's shell.
quoted=
for word in "$@"; do
    quoted="$quoted '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done
mkdir "$work/command.d"
{
    echo 'export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root'
    printf 'cd %s\n' "'$PWD'"
    echo "exec$quoted"
} >"$work/command.d/command"
{ cat "$cache/initrd"; (cd "$work/command.d" && echo command | cpio -o -H newc -R 0:0 --quiet); } >"$work/initrd.full"

# PCI devices, and memory that they share.
set -- -m 1536
if [ -n "$sockets" ]; then
    set -- "$@" -machine q35,memory-backend=memory -object memory-backend-memfd,id=memory,size=1536M,share=on
    slot=16
    IFS=$newline
    for socket in $sockets; do
        set -- "$@" -device "{\"driver\":\"vfio-user-pci\",\"addr\":\"$(printf %x $slot).0\",\"socket\":{\"type\":\"unix\",\"path\":\"$socket\"}}"
        slot=$((slot + 1))
    done
    unset IFS
fi

# One run of the machine; its console in "$work/out". The kernel's check of the timer's interrupt at boot counts real time,
# and panics where the emulation is slowed by other work (no_timer_check). Both processors of the guest share one thread: with a thread each,
# QEMU at times runs an instruction that the kernel has replaced since, and the kernel panics ("Oops: int3"). It is no slower.
# The kernel boots sooner with random numbers from the processor, and without its guards against processors that this one is not.
run() {
    timeout --foreground "$limit" "$qemu" -accel tcg,thread=single -cpu qemu64,+rdrand -smp "$processors" -nographic -no-reboot "$@" \
        -kernel "$cache/vmlinuz" -initrd "$work/initrd.full" \
        -append "console=ttyS0 quiet panic=-1 loglevel=3 no_timer_check mitigations=off" \
        -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=root,mount_tag=root \
        -netdev user,id=net$forward -device virtio-net-pci,netdev=net,romfile= -monitor none -serial stdio \
        </dev/null >"$work/console" 2>"$work/errors" || {
        status=$?
        cat "$work/console" "$work/errors" >&2
        exit $status
    }
    tr -d '\r' <"$work/console" >"$work/out"
}
# A kernel that dies before it runs the command has done nothing yet, and may be booted again.
for attempt in 1 2 3; do
    run "$@"
    grep -q '^guest: running$' "$work/out" && break
    echo "guest.sh: the guest did not boot (attempt $attempt of 3)" >&2
    cat "$work/out" >&2
done
sed '1,/^guest: running$/d; /^guest: exit status /,$d' "$work/out"
status=$(sed -n 's/^guest: exit status //p' "$work/out")
[ -n "$status" ] || fail "the guest died"
exit "$status"
