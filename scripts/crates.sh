#!/bin/sh
# Packs the crates of the workspace as `cargo package` does, under the names that they have when they are published: tranche-NAME, and tranche-ssd for the program
# (CONTRIBUTING.md). Their libraries, and the program, keep their names, so that no source differs.
#
#   usage: scripts/crates.sh [--verify] [DIR]        default: out/crates; leaves DIR/NAME-VERSION.crate
#
# What cargo warns of fails. --verify compiles the program from the packages alone. Tests and benchmarks stay out: they use programs and files of the whole tree.
# Nothing is published.
set -eu
# What programs print is read below.
export LC_ALL=C
umask 022

fail() { echo "crates.sh: $*" >&2; exit 1; }
here=$(cd "$(dirname "$0")/.." && pwd)
verify=--no-verify
[ "${1-}" != --verify ] || { verify=; shift; }
out=${1:-out/crates}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" | head -1)
# Dependencies within the workspace: their packages' names, and the version that a package needs beside a path. Examples are no packages.
sed -E -e "s|^([a-z-]+) = \{ path = \"(crates/[a-z-]+/[a-z-]+)\"|\1 = { package = \"tranche-\1\", version = \"=$version\", path = \"\2\"|" -e 's/^publish = false/publish = true/' -e 's|, "examples/\*"||' \
    "$here/Cargo.toml" >"$work/Cargo.toml"
cp "$here/README.md" "$here/LICENSE" "$work"
names=
for manifest in "$here"/crates/*/*/Cargo.toml; do
    crate=$(dirname "$manifest")
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -1)
    # A package of Python is published as a wheel; what tests share is not published, nor is the ledger, which works on this repository only.
    case $name in py | testkit | lab-fidelity) continue ;; esac
    to=$work/${crate#"$here"/}
    mkdir -p "$to"
    # A link's file is a file of the package.
    for part in src include profiles page/dist build.rs askama.toml; do
        [ -e "$crate/$part" ] || continue
        mkdir -p "$to/$(dirname "$part")"
        cp -RL "$crate/$part" "$to/$part"
    done
    cp "$here/LICENSE" "$to"
    # Without what is for tests and benchmarks only.
    awk '/^\[/ { kept = !/^\[dev-dependencies|^\[\[(test|bench|example)\]\]/ } kept' "$manifest" |
        sed -E '/^license\.workspace/a readme.workspace = true\nkeywords.workspace = true\ncategories.workspace = true' >"$to/Cargo.toml"
    if [ -e "$to/src/main.rs" ]; then
        package=tranche-ssd
        printf '\n[lib]\nname = "%s"\n\n[[bin]]\nname = "%s"\npath = "src/main.rs"\n' "$name" "$name" >>"$to/Cargo.toml"
    else
        package=tranche-$name
        grep -q '^\[lib\]' "$to/Cargo.toml" || printf '\n[lib]\nname = "%s"\n' "$(echo "$name" | tr - _)" >>"$to/Cargo.toml"
    fi
    # The first one only: libraries and the program keep their names.
    sed -i "0,/^name = \"$name\"\$/s//name = \"$package\"/" "$to/Cargo.toml"
    names="$names $package"
done

# The versions of all other crates are those that are tested.
cp "$here/Cargo.lock" "$work"
cd "$work"
pack() { cargo package --workspace $verify --target-dir "$work/target" "$@" >"$work/said" 2>&1; }
pack --offline || pack || {
    cat "$work/said" >&2
    fail 'cargo package fails'
}
# Where the source is to be found is for who publishes it to say.
warnings=$(grep '^warning' "$work/said" | grep -v 'manifest has no documentation, homepage or repository' || true)
[ -z "$warnings" ] || fail "cargo package warns: $warnings"
grep -q '^repository = ' Cargo.toml || echo 'crates.sh: Cargo.toml names no repository: set it in [workspace.package] before you publish' >&2
for name in $names; do
    packed=$work/target/package/$name-$version.crate
    [ -e "$packed" ] || fail "cargo has not made $name-$version.crate"
    for file in Cargo.toml README.md LICENSE; do
        tar -tzf "$packed" | grep -qx "$name-$version/$file" || fail "$name has no $file"
    done
    mv "$packed" "$out"
    echo "$out/$name-$version.crate"
done
