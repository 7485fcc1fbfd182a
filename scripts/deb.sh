#!/bin/sh
# Makes a Debian package of the program: with manual pages, completions of shells, and a systemd unit (docs/howto/service.md).
#
#   usage: scripts/deb.sh [DIR] [path of tranche]        default: out target/release/tranche
#
# The package depends on the libraries that the program is linked with, as this system's packages have them: build it on the oldest Debian that it is for. Needs
# dpkg. The same program and the same change give the same package, byte by byte. DEBFULLNAME and DEBEMAIL name the maintainer.
set -eu
# What programs print is read below.
export LC_ALL=C
umask 022

fail() { echo "deb.sh: $*" >&2; exit 1; }
here=$(dirname "$0")/..
out=${1:-out}
tranche=${2:-${CARGO_TARGET_DIR:-$here/target}/release/tranche}
[ -x "$tranche" ] || fail "$tranche is missing; run: make build"
command -v dpkg-deb >/dev/null || fail "dpkg-deb is missing: this needs Debian's dpkg"

maintainer="${DEBFULLNAME:-The Tranche developers} <${DEBEMAIL:-tranche@example.org}>"
upstream=$("$tranche" --version | awk '{ print $2 }')
version=$upstream-1
architecture=$(dpkg --print-architecture)
# The date of the last change is that of all files, so that a package can be made again.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || stat -c %Y "$here/CHANGELOG.md")}
export SOURCE_DATE_EPOCH

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
trap 'exit 1' INT TERM
# mktemp makes it for this user alone.
chmod 755 "$tree"

put() { # MODE FILE PLACE
    install -D -m "$1" "$2" "$tree/$3"
}

put 755 "$tranche" usr/bin/tranche
strip --strip-unneeded "$tree/usr/bin/tranche"
put 644 "$here/packaging/tranche@.service" lib/systemd/system/tranche@.service
put 644 "$here/packaging/sysusers.conf" usr/lib/sysusers.d/tranche.conf
for example in drive.conf credentials.conf; do
    put 644 "$here/packaging/$example" "usr/share/doc/tranche/examples/$example"
done
put 644 "$here/README.md" usr/share/doc/tranche/README.md
put 644 "$here/CHANGELOG.md" usr/share/doc/tranche/changelog
{
    printf 'tranche (%s) unstable; urgency=medium\n\n  * Release %s; changelog.gz has the changes.\n\n' "$version" "$upstream"
    printf ' -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} >"$tree/usr/share/doc/tranche/changelog.Debian"
gzip -9n "$tree/usr/share/doc/tranche/changelog" "$tree/usr/share/doc/tranche/changelog.Debian"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: tranche\n\n'
    printf 'Files: *\nCopyright: 2026 The Tranche developers\nLicense: Apache-2.0\n'
    printf ' On Debian systems the text of the license is in /usr/share/common-licenses/Apache-2.0.\n'
} >"$tree/copyright"
put 644 "$tree/copyright" usr/share/doc/tranche/copyright
rm "$tree/copyright"

"$tranche" man "$tree/usr/share/man/man1" 2>/dev/null
find "$tree/usr/share/man" -type f -exec gzip -9n {} +
completions() { # SHELL PLACE
    mkdir -p "$tree/$(dirname "$2")"
    "$tranche" completions "$1" >"$tree/$2"
    chmod 644 "$tree/$2"
}
completions bash usr/share/bash-completion/completions/tranche
completions zsh usr/share/zsh/vendor-completions/_tranche
completions fish usr/share/fish/vendor_completions.d/tranche.fish

# The packages of the libraries, as old as the first two numbers of the versions that are installed here.
libraries=$(ldd "$tree/usr/bin/tranche" | awk '$2 == "=>" { print $3 }')
depends=
for package in $(for library in $libraries; do
    # A package may name the file by way of a link to its directory.
    dpkg-query -S "$library" "$(readlink -f "$library")" "/usr$library" 2>/dev/null | head -1 | cut -d : -f 1
done | sort -u); do
    package_version=$(dpkg-query -W -f '${Version}\n' "$package:$architecture" | head -1 | sed -E 's/^([0-9]+:)?([0-9]+(\.[0-9]+)?).*/\1\2/')
    depends="$depends${depends:+, }$package (>= $package_version)"
done
[ -n "$depends" ] || fail "no package has the libraries of $tranche"

mkdir "$tree/DEBIAN"
# Without systemd there is no unit that needs the group.
cat >"$tree/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
set -e
if [ "$1" = configure ] && command -v systemd-sysusers >/dev/null; then
    systemd-sysusers tranche.conf
fi
POSTINST
chmod 755 "$tree/DEBIAN/postinst"
size=$(du -k -s "$tree" | awk '{ print $1 }')
cat >"$tree/DEBIAN/control" <<CONTROL
Package: tranche
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $size
Depends: $depends
Recommends: fuse3, nvme-cli
Suggests: mariadb-server-core, fio, xfsprogs
Section: admin
Priority: optional
Description: NVMe drive in software, and a laboratory for databases on it
 A complete NVMe drive as a program: flash with garbage collection, DRAM and
 disks, zones, quotas, keys, power cuts. Hosts reach it over NVMe/TCP, as block
 files through FUSE, or in virtual time. Studies hold databases on it against
 published results.
CONTROL
(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -print | sort | cut -c 3- | xargs md5sum) >"$tree/DEBIAN/md5sums"

mkdir -p "$out"
package=$out/tranche_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$tree" "$package" >/dev/null
echo "$package"
