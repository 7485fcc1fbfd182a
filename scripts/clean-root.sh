#!/bin/sh
# Installs a Debian package or a Python wheel of tranche in a minimal Debian that has nothing else, uses it as a user would, and removes it. Shows each
# command with what it printed.
#
#   usage: scripts/clean-root.sh PACKAGE.deb|WHEEL.whl [SUITE]        default: this machine's suite
#
# Needs root and mmdebstrap; packages come from the archive that this machine uses. Exit status 77: the archive cannot be reached.
set -eu
# What programs print is read below.
export LC_ALL=C
export DEBIAN_FRONTEND=noninteractive

fail() { echo "clean-root.sh: $*" >&2; exit 1; }
[ $# -ge 1 ] || { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
package=$1
# shellcheck source=/dev/null
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
[ -f "$package" ] || fail "there is no $package: make deb, or scripts/python.sh --wheel DIR"
[ "$(id -u)" -eq 0 ] || fail 'a file system with the owners of a system needs root'
command -v mmdebstrap >/dev/null || fail 'mmdebstrap is missing: apt-get install mmdebstrap'

work=$(mktemp -d)
root=$work/root
drive=
finish() {
    [ -z "$drive" ] || { kill "$drive" && wait "$drive"; } 2>/dev/null || true
    umount -l "$root/proc" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# The mirror that this machine uses.
# shellcheck disable=SC2016 # apt expands it
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian/*$' | head -1)
site=${site:-http://deb.debian.org/debian}
# apt, and what it needs: no manual pages, no documents, nothing that is recommended.
mmdebstrap --quiet --mode=root --variant=apt --skip=cleanup/apt --dpkgopt=force-unsafe-io "$suite" "$root" "deb $site $suite main" >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    exit 77
}
mount -t proc proc "$root/proc"

# Runs a command in the root file system, and shows it.
inside() {
    echo "# $*"
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"
}
# The same for apt, of which only what it does to packages is shown.
packages() { inside apt-get -o APT::Sandbox::User=root -q -y "$@" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }; grep -E '^(#|Setting up|Removing|Purging)' "$work/said"; }

debian_package() {
    cp "$package" "$root/tranche.deb"
    packages install --no-install-recommends /tranche.deb
    inside tranche --version
    inside dpkg --verify tranche
    [ -s "$root/usr/bin/tranche" ] || fail 'the package has no program'

    echo '# tranche serve --image /var/lib/tranche/drive --unix /run/t.sock &'
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" tranche serve --image /var/lib/tranche/drive --unix /run/t.sock >"$work/ready" 2>"$work/drive" &
    drive=$!
    inside tranche ns list --wait 60 --on unix:///run/t.sock || fail "the drive does not start: $(cat "$work/drive")"
    inside tranche ns create --nvm-set 2 --size 16MiB --attach --on unix:///run/t.sock
    inside tranche ns list --on unix:///run/t.sock
    inside tranche smart --on unix:///run/t.sock
    inside tranche doctor | sed -n '1,/^$/p'
    kill -TERM "$drive"
    wait "$drive" || fail "the drive ends with an error: $(tail -n 3 "$work/drive")"
    drive=
    inside tranche image check /var/lib/tranche/drive

    packages purge tranche
    left=$(cd "$root" && find . -xdev -path ./proc -prune -o -path './var/lib/tranche' -prune -o -path './var/cache' -prune -o -name '*tranche*' -print)
    [ "$left" = ./tranche.deb ] || fail "files of the package are left: $left"
    [ -d "$root/var/lib/tranche/drive" ] || fail 'the drive is gone with the package'
    echo 'the drive stays, and no file of the package'
}

wheel() {
    cp "$package" "$root"
    packages install --no-install-recommends python3-venv
    inside python3 -m venv /venv
    inside /venv/bin/pip install -q --no-index --no-deps "/$(basename "$package")"
    cat >"$root/try.py" <<'PYTHON'
import tranche

run = tranche.simulate(tranche.Load.fio("[job]\nrw=randwrite\nbs=4k\niodepth=32\nsize=64m\n"))
print(f"{run.requests} requests in virtual time")
with tranche.Drive() as drive:
    namespace = drive.namespace(1)
    namespace.write(0, b"kept" * 1024, fua=True)
    drive.power_cut()
    assert namespace.read(0) == b"kept" * 1024
    print(f"{drive.url}: what was written is there after a power cut")
PYTHON
    inside cat /try.py
    inside /venv/bin/python /try.py
    inside /venv/bin/pip uninstall -q -y tranche
    left=$(find "$root/venv" -iname '*tranche*')
    [ -z "$left" ] || fail "files of the package are left: $left"
    echo 'no file of the package is left'
}

inside cat /etc/debian_version
case $package in
*.whl) wheel ;;
*) debian_package ;;
esac
