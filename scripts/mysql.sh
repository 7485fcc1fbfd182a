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
program=$dir/bin/mysqld
# shellcheck source=scripts/own-tree.sh
. "$root/scripts/own-tree.sh"

"$root/scripts/debian-packages.sh" $suite "$work" mysql-server-core || {
    status=$?
    echo "mysql.sh: name a MySQL server of your own with --mysqld PATH" >&2
    exit $status
}

# What the server runs with; the rest is for its scripts (Perl) and for an installed system.
unpack 'perl|libperl|debconf|dpkg|tar_|mysql-common_|base-files|init-system-helpers'
find_loader
for name in mysqld innochecksum; do
    binary=$(find "$dir/root/usr" -type f -name $name | head -1)
    [ -n "$binary" ] || lacking "mysql-server-core of $suite holds no $name"
    arguments=
    # Messages, character sets and plug-ins are looked for below the base.
    [ $name = innochecksum ] || arguments=" --basedir='$dir/root/usr'"
    cat >"$dir/bin/$name" <<RUN
#!/bin/sh
exec '$loader' --library-path '$libraries:$dir/root/usr/lib/mysql/private' '$binary' "\$@"$arguments
RUN
    chmod 755 "$dir/bin/$name"
done
# The databases of the studies run as a user of their own.
chmod -R a+rX "$dir/root" "$dir/bin"
"$dir/bin/mysqld" --no-defaults --version >"$work/log" 2>&1 ||
    lacking "the server of $suite does not run here: $(tail -1 "$work/log")"
echo "$this" >"$dir/made-by"
finish
