#!/bin/sh
# Makes everything of a release in out/release: the Debian package, the container image, the static program, the wheel of the Python package, the source, the crates, the
# list of what is in it (SBOM), and their checksums. It publishes nothing, and sets no tag (CONTRIBUTING.md).
#
#   usage: scripts/release.sh [--dry-run | --snapshot] VERSION
#
# Before it builds, it checks that the tree is committed, that Cargo.toml and CHANGELOG.md say VERSION, and that the tag is free. --dry-run only checks, and says what would
# be made. --snapshot goes on where a check fails: a release to try.
#
# The same commit gives the same files, with the same toolchain and system libraries. TRANCHE and TRANCHE_STATIC name programs that are built already, TRANCHE_WHEEL a wheel,
# OUT another directory.
set -eu
# What programs print is read below.
export LC_ALL=C
umask 022

fail() { echo "release.sh: $*" >&2; exit 1; }
usage() { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
mode=release
while [ $# -gt 1 ]; do
    case $1 in
    --dry-run) mode=dry-run ;;
    --snapshot) mode=snapshot ;;
    *) usage ;;
    esac
    shift
done
version=${1-}
case $version in '' | -*) usage ;; esac
out=${OUT:-out/release}
target=${CARGO_TARGET_DIR:-target}
say() { echo "release.sh: $*" >&2; }

# Checks

refused=
refuse() { say "$*"; refused=yes; }
[ -z "$(git status --porcelain)" ] || refuse 'the tree has changes that are not committed'
stated=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
[ "$stated" = "$version" ] || refuse "Cargo.toml has version $stated, not $version"
heading=$(sed -n 's/^## //p' CHANGELOG.md | head -1)
case $heading in
"$version ("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]")") ;;
*) refuse "the first heading of CHANGELOG.md is \"$heading\", not \"$version (YYYY-MM-DD)\"" ;;
esac
tagged=$(git rev-parse -q --verify "refs/tags/v$version^{commit}" || true)
[ -z "$tagged" ] || [ "$tagged" = "$(git rev-parse HEAD)" ] || refuse "the tag v$version is another commit"
case $mode in
dry-run)
    [ -z "$refused" ] || fail "$version would be refused"
    say "would make in $out: the source, tranche_$version-1_*.deb, the image and the static program, the wheel, crates, SBOM, SHA256SUMS"
    exit
    ;;
release) [ -z "$refused" ] || fail "$version is refused; --snapshot makes it all the same, to try" ;;
esac

# What is built does not depend on the place of this tree, nor on the time.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
architecture=$(uname -m)
remap="-D warnings --remap-path-prefix=$PWD=/tranche --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# The source

name=tranche-$stated
git archive --format tar --prefix "$name/" HEAD | gzip -9n >"$out/$name.tar.gz"

# Programs, and what has them

if [ -z "${TRANCHE-}" ]; then
    RUSTFLAGS=$remap cargo build --locked --release -p tranche --target-dir "$target/dist"
    TRANCHE=$target/dist/release/tranche
fi
if [ -z "${TRANCHE_STATIC-}" ]; then
    RUSTFLAGS=$remap scripts/static.sh
    TRANCHE_STATIC=$target/static/tranche
fi
scripts/deb.sh "$out" "$TRANCHE" >/dev/null
scripts/image.sh "$work" "$TRANCHE_STATIC" >/dev/null
mv "$work"/tranche-*.oci.tar "$out"
install -m 755 "$TRANCHE_STATIC" "$work/tranche"
strip --strip-unneeded "$work/tranche"
tar --create --format ustar --mtime "@$SOURCE_DATE_EPOCH" --numeric-owner --owner 0 --group 0 --directory "$work" tranche |
    gzip -9n >"$out/$name-$architecture-linux.tar.gz"

# The Python package

if [ -z "${TRANCHE_WHEEL-}" ]; then
    RUSTFLAGS=$remap scripts/python.sh --wheel "$work/wheel"
    TRANCHE_WHEEL=$(echo "$work"/wheel/tranche-"$stated"-*.whl)
fi
cp "$TRANCHE_WHEEL" "$out"

# Crates, as `cargo package` makes them

scripts/crates.sh "$out/crates" >/dev/null

# What is in it

mkdir "$work/source"
tar -xzf "$out/$name.tar.gz" --directory "$work/source" --strip-components 1
scripts/sbom.sh "$work/source" "$out/$name.cdx.json"

(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >"$work/sums" && mv "$work/sums" SHA256SUMS)
say "$out has $(wc -l <"$out/SHA256SUMS") files, with their checksums in SHA256SUMS"
[ "$mode" = snapshot ] || say "next, by hand: git tag v$stated; push it; upload the files"
