#!/bin/sh
# Makes DIR/bin/mdbook: the program of Debian's unstable suite, which runs with the libraries of that suite. Where the package cannot be had, or is
# of another series than VERSION, cargo compiles that version, which takes minutes.
#
#   usage: scripts/mdbook.sh VERSION DIR
#
# Nothing is installed on this machine.
set -eu
[ $# -eq 2 ] || { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
version=$1
mkdir -p "$2/bin"
dir=$(cd "$2" && pwd)

packaged() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    "$(dirname "$0")/debian-packages.sh" unstable "$work" mdbook || return 1
    rm -rf "$dir/root"
    mkdir "$dir/root"
    for package in "$work"/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$dir/root" --no-same-owner --keep-directory-symlink || return 1
    done
    loader=$(find "$dir/root" -name 'ld-linux*.so.*' -path '*/lib*' | head -1)
    libraries=$(find "$dir/root" -name libc.so.6 | head -1)
    program=$dir/root/usr/bin/mdbook
    [ -n "$loader" ] && [ -n "$libraries" ] && [ -x "$program" ] || return 1
    printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$loader" "${libraries%/*}" "$program" >"$work/mdbook"
    chmod +x "$work/mdbook"
    case $("$work/mdbook" --version) in
    "mdbook v${version%.*}."*) mv "$work/mdbook" "$dir/bin/mdbook" ;;
    *) return 1 ;;
    esac
}

packaged || ${CARGO:-cargo} install --locked --version "$version" --root "$dir" --no-default-features --features search mdbook
