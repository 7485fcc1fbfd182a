#!/bin/sh
# Makes a tree of its own with MySQL, which Debian 12 does not package: the server of Debian's unstable suite with all of its
# libraries, started through the loader of that tree. Nothing is installed on this machine; no root needed.
#
#   usage: scripts/mysql.sh [DIR]      prints the server's path: DIR/bin/mysqld
#
# DIR is target/mysql by default; for root /var/cache/tranche/mysql where others may not enter the project's directories, since
# the studies of root run the database as another user.
# The tree is made once (about 100 MB fetched, checked by apt against the signed lists of the archive). Exit status 77: the
# packages cannot be had; why is on standard error.
set -eu
# What programs print is read below.
export LC_ALL=C

[ $# -le 1 ] || { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
suite=sid
root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-${CARGO_TARGET_DIR:-$root/target}/mysql}
mkdir -p "$dir"
if [ $# -eq 0 ] && [ "$(id -u)" -eq 0 ]; then
    above=$(cd "$dir" && pwd -P)
    while [ "$above" != / ]; do
        case $(stat -c %A "$above") in
        *[xt]) ;;
        *) dir=/var/cache/tranche/mysql ;;
        esac
        above=$(dirname "$above")
    done
    mkdir -p "$dir"
fi
dir=$(cd "$dir" && pwd)
# Another version of these scripts makes its own.
this=$(cat "$0" "$root/scripts/debian-packages.sh" | cksum | cut -d ' ' -f 1)
finish() {
    echo "$dir/bin/mysqld"
    exit 0
}
made() { [ -x "$dir/bin/mysqld" ] && [ "$(cat "$dir/made-by" 2>/dev/null)" = "$this" ]; }
made && finish
lacking() { echo "mysql.sh: $*" >&2; exit 77; }
command -v flock >/dev/null || lacking "no flock"

# Others may make it at the same time.
exec 9>"$dir/lock"
flock 9
made && finish

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

"$root/scripts/debian-packages.sh" $suite "$work" mysql-server-core || {
    status=$?
    echo "mysql.sh: name a MySQL server of your own with --mysqld PATH" >&2
    exit $status
}

rm -rf "$dir/root" "$dir/bin" "$dir/made-by"
mkdir "$dir/root" "$dir/bin"
for package in "$work"/*.deb; do
    # What the server runs with; the rest is for its scripts (Perl) and for an installed system.
    case ${package##*/} in
    perl* | libperl* | debconf* | dpkg* | tar_* | mysql-common_* | base-files* | init-system-helpers*) continue ;;
    esac
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$dir/root" --no-same-owner --exclude ./usr/share/doc --exclude ./usr/share/man \
        --exclude ./usr/share/locale --keep-directory-symlink
done
loader=$(find "$dir/root" -name 'ld-linux*.so.*' -path '*/lib*' | head -1)
[ -n "$loader" ] || lacking "the packages of $suite hold no loader"
libraries=$(find "$dir/root" -name 'libc.so.6' | head -1)
libraries=${libraries%/*}
for name in mysqld innochecksum; do
    program=$(find "$dir/root/usr" -type f -name $name | head -1)
    [ -n "$program" ] || lacking "mysql-server-core of $suite holds no $name"
    arguments=
    # Messages, character sets and plug-ins are looked for below the base.
    [ $name = innochecksum ] || arguments=" --basedir='$dir/root/usr'"
    cat >"$dir/bin/$name" <<RUN
#!/bin/sh
exec '$loader' --library-path '$libraries:$dir/root/usr/lib/mysql/private' '$program' "\$@"$arguments
RUN
    chmod 755 "$dir/bin/$name"
done
# The databases of the studies run as a user of their own.
chmod -R a+rX "$dir/root" "$dir/bin"
"$dir/bin/mysqld" --no-defaults --version >"$work/log" 2>&1 ||
    lacking "the server of $suite does not run here: $(tail -1 "$work/log")"
echo "$this" >"$dir/made-by"
finish
