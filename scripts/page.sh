#!/bin/sh
# Builds the page of the live view from its source (crates/attach/ui/page) and says whether crates/attach/ui/page/dist is what the source gives.
# Then it brings dist up to date. Needs Node 20.19 or later with npm, and fetches the packages that package-lock.json pins.
#
#   usage: scripts/page.sh [--check]      --check changes nothing, and fails if dist is not what the source gives
set -eu
page=$(cd "$(dirname "$0")/../crates/attach/ui/page" && pwd)
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
trap 'exit 1' INT TERM

cd "$page"
npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
npx tsc --noEmit
npx vitest run
npx vite build --logLevel warn --outDir "$built" --emptyOutDir

if diff -r dist "$built" >/dev/null; then
    echo "page.sh: dist is what the source gives"
elif [ "${1:-}" = --check ]; then
    diff -rq dist "$built" >&2 || true
    echo "page.sh: dist is not what the source gives; run scripts/page.sh and commit dist" >&2
    exit 1
else
    rm -rf dist
    cp -r "$built" dist
    chmod -R u=rwX,go=rX dist
    echo "page.sh: dist was not what the source gives, and is now"
fi
