# shellcheck shell=sh disable=SC2034 disable=SC2154 # the script that sources it sets `root`, `dir` and `program`, and reads the others
# What scripts share that make a tree of packages of Debian's unstable suite, in `dir`, once. `program` is its program. Ends the script where the tree is made.
# Sets `work`, a directory for the script's run. `unpack` and `find_loader` are for its packages.

# Another version of these scripts makes its own.
this=$(cat "$0" "$root/scripts/own-tree.sh" "$root/scripts/debian-packages.sh" | cksum | cut -d ' ' -f 1)
finish() {
    echo "$program"
    exit 0
}
made() { [ -x "$program" ] && [ "$(cat "$dir/made-by" 2>/dev/null)" = "$this" ]; }
made && finish
lacking() { echo "${0##*/}: $*" >&2; exit 77; }
command -v flock >/dev/null || lacking "no flock"

# Others may make it at the same time.
exec 9>"$dir/lock"
flock 9
made && finish

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# unpack PATTERN [OPTION...]: the packages in `work` into `dir`/root, but those whose names match the extended expression. The options are of tar.
unpack() {
    pattern=$1
    shift
    rm -rf "$dir/root" "$dir/bin" "$dir/made-by"
    mkdir "$dir/root" "$dir/bin"
    for package in "$work"/*.deb; do
        ! echo "${package##*/}" | grep -qE "^($pattern)" || continue
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$dir/root" --no-same-owner --exclude ./usr/share/doc --exclude ./usr/share/man \
            --exclude ./usr/share/locale --keep-directory-symlink "$@"
    done
}
# Sets `loader`, and `libraries`, the directory of the C library.
find_loader() {
    loader=$(find "$dir/root" -name 'ld-linux*.so.*' -path '*/lib*' | head -1)
    [ -n "$loader" ] || lacking "the packages hold no loader"
    libraries=$(find "$dir/root" -name 'libc.so.6' | head -1)
    libraries=${libraries%/*}
}
