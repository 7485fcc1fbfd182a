#!/bin/sh
# Checks action.yml, and the recipes of docs/howto/ci.md, against the schemas of GitHub and GitLab. The checker has them, and asks no network for them.
#
#   usage: scripts/recipes.sh
#
# The checker is of a fixed version, in target/tools: nothing is installed on the machine. Needs python3 with venv.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
tool=${CARGO_TARGET_DIR:-target}/tools/check-jsonschema-0.39.0
check=$tool/bin/check-jsonschema
[ -x "$check" ] || { python3 -m venv "$tool" && "$tool/bin/pip" install -q check-jsonschema==0.39.0; } || {
    echo 'SKIPPED recipes: check-jsonschema cannot be fetched' >&2
    case ${TRANCHE_NO_SKIPS-} in '' | 0) exit 0 ;; *) exit 1 ;; esac
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
# Each block of YAML, in a directory named as its heading: "GitHub Actions" or "GitLab CI".
awk -v dir="$work" '
    /^## / { heading = $2 }
    /^```yaml$/ { file = dir "/" heading "-" ++n ".yml"; next }
    /^```$/ { file = ""; next }
    file { print > file }' docs/howto/ci.md
ls "$work"/GitHub-*.yml "$work"/GitLab-*.yml >/dev/null || { echo 'recipes.sh: docs/howto/ci.md has lost a recipe' >&2; exit 1; }
"$check" --builtin-schema vendor.github-actions action.yml
"$check" --builtin-schema vendor.github-workflows "$work"/GitHub-*.yml
"$check" --builtin-schema vendor.gitlab-ci "$work"/GitLab-*.yml
