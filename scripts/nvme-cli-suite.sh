#!/bin/sh
# Runs nvme-cli's own end-to-end tests against a drive: the Linux kernel of scripts/guest.sh is the host, over NVMe/TCP. The tests and
# the program are those of Debian 13 (fetched once, checked by apt, nothing is installed), or those of a built nvme-cli.
#
#   usage: scripts/nvme-cli-suite.sh [-p TRANCHE] [-t SECONDS] [-n TREE NVME] [TEST...]
#
# TRANCHE is the program (target/release/tranche); SECONDS the time limit (1800). TREE is the directory of another nvme-cli, and NVME its
# built program. A TEST is the name of a file in tests/, such as nvme_flush_test; without, all of them run. One line for each test comes
# out. The status is 1 if a test fails that is not among those below, or if one of them passes with Debian's tests; 77 if the
# tests or a kernel cannot be had.
#
# The drive has one NVM Set and LBA formats without metadata. The tests create namespaces of the whole drive, and those with metadata in a
# buffer of its own, which no fabric moves (base specification 2.1, section 2.1).
# shellcheck source=scripts/serve.sh
. "$(dirname "$0")/serve.sh"
tranche=
limit=1800
tree=
while getopts p:t:n: option; do
    case $option in
    p) tranche=$OPTARG ;;
    t) limit=$OPTARG ;;
    n) tree=$(cd "$OPTARG" && pwd) ;;
    *) sed -n '5s/^# *//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
program "$tranche"
needs python3

if [ -n "$tree" ]; then
    [ $# -ge 1 ] || fail "name the program after -n TREE"
    nvme=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
    shift
    [ -x "$nvme" ] || fail "$nvme is missing"
else
    "$root/scripts/guest-userland.sh" "$target/guest/userland"
    kept=$target/guest/nvme-cli
    if ! [ -e "$kept/done" ]; then
        "$root/scripts/debian-packages.sh" -s trixie "$dir/source" nvme-cli
        mkdir "$dir/tree"
        tar -x -C "$dir/tree" --strip-components 1 --no-same-owner -f "$dir"/source/nvme-cli_*.orig.tar.*
        mkdir -p "$kept"
        # Others may do so at the same time: what they leave is the same.
        cp -r "$dir/tree/tests" "$kept/"
        touch "$kept/done"
    fi
    tree=$kept
    # Through its own loader: this machine's libraries may be older.
    libraries=$(dirname "$(find "$target/guest/userland/root/usr/lib" -name 'libnvme.so.1' | head -1)")
    loader=$(find "$libraries" -name 'ld-linux*.so.*' | head -1)
    [ -n "$loader" ] || fail "the packages hold no loader"
    nvme=$dir/nvme
    printf '#!/bin/sh\nexec %s --library-path %s %s "$@"\n' "'$loader'" "'$libraries'" \
        "'$target/guest/userland/root/usr/sbin/nvme'" >"$nvme"
    chmod 755 "$nvme"
    "$nvme" version >/dev/null || fail "the nvme-cli of Debian 13 does not run here"
fi
[ -e "$tree/tests/nvme_test.py" ] || fail "$tree holds no tests of nvme-cli"

# Tests that fail for what fabrics, Linux or the tests themselves are like. The reasons are printed.
cat >"$dir/known" <<'KNOWN'
nvme_get_features_test.TestNVMeGetMandatoryFeatures.test_get_mandatory_features reads Interrupt Coalescing (08h) and Interrupt Vector Configuration (09h), which controllers over fabrics do not have
nvme_get_lba_status_test.TestNVMeGetLbaStatusCmd.test_get_lba_status gives the path of the device as the identifier of the namespace
KNOWN
if [ -d "$tree/tests/e2e" ]; then
    cat >>"$dir/known" <<'KNOWN'
nvme_copy_test.TestNVMeCopyFormat23.test_copy_format_2 Linux 6.12 answers Set Features of Host Behavior Support (16h) with EACCES
nvme_copy_test.TestNVMeCopyFormat23.test_copy_format_2_sopts Linux 6.12 answers Set Features of Host Behavior Support (16h) with EACCES
KNOWN
else
    cat >>"$dir/known" <<'KNOWN'
nvme_copy_test.TestNVMeCopy.test_copy takes bytes for text: TypeError before the first Copy
KNOWN
fi

cat >"$dir/drive.toml" <<DRIVE
[drive]
timing = false
lba_formats = ["4096", "512"]

$(one_set 1GiB 20%)

[[namespace]]
set = 1
size = "rest"
lba = 4096
DRIVE
serve --tcp 127.0.0.1:0 "$dir/drive.toml"

# In the guest: connects, and runs every test by itself.
cat >"$dir/guest.sh" <<'GUEST'
set -eu
address=$1 port=$2 nqn=$3 python=$4
shift 4
nvme connect -t tcp -a "$address" -s "$port" -n "$nqn" >/dev/null
for _ in $(seq 300); do [ -b /dev/nvme0n1 ] && break; sleep 0.2; done
exec python3 -W ignore "$python" "$@"
GUEST
cat >"$dir/run.py" <<'PYTHON'
import contextlib, glob, importlib, json, os, shutil, sys, tempfile, unittest

tree, nvme, chosen = sys.argv[1], sys.argv[2], sys.argv[3:]
# The tests write beside themselves, and this machine's files are read-only below.
place = tempfile.mkdtemp()
shutil.copytree(tree + "/tests", place + "/tests")
os.chdir(place)
config = {"controller": "/dev/nvme0", "ns1": "/dev/nvme0n1", "log_dir": place + "/log", "nvme_bin": nvme,
          "do_validate_pci_device": False}
if os.path.isdir("tests/e2e"):
    # Version 3: a package, told in its environment.
    os.environ["NVME_E2E_CONFIG"] = json.dumps(config)
    sys.path.insert(0, place)
    files = glob.glob("tests/e2e/*_test.py") + glob.glob("tests/e2e/plugins/ocp/*_log_test.py")
else:
    with open("tests/config.json", "w") as file:
        json.dump(config, file)
    sys.path.insert(0, place + "/tests")
    files = glob.glob("tests/*_test.py")


def cases(suite):
    for one in suite:
        yield from cases(one) if isinstance(one, unittest.TestSuite) else [one]


said = sys.__stdout__
missing = set(chosen)
for file in sorted(files):
    name = os.path.basename(file)[:-3]
    # The base classes and the example are no tests.
    if name in ("nvme_test", "nvme_simple_template_test") or chosen and name not in chosen:
        continue
    missing.discard(name)
    module = importlib.import_module(file[:-3].replace("/", ".") if os.path.isdir("tests/e2e") else name)
    for case in cases(unittest.defaultTestLoader.loadTestsFromModule(module)):
        result = unittest.TestResult()
        log = tempfile.mktemp()
        with open(log, "w") as sink:
            before = sys.stdout, sys.stderr
            with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
                case.run(result)
            # Some tests put others in their place.
            sys.stdout, sys.stderr = before
        about = ".".join(case.id().split(".")[-3:])
        bad = result.errors + result.failures
        if bad:
            print("RESULT failed", about, bad[0][1].strip().splitlines()[-1], file=said)
            for line in bad[0][1].splitlines() + open(log).read().splitlines()[-30:]:
                print("#", line, file=said)
        elif result.skipped:
            print("RESULT skipped", about, result.skipped[0][1], file=said)
        else:
            print("RESULT passed", about, file=said)
        said.flush()
for name in sorted(missing):
    print("RESULT failed", name, "there is no such file", file=said)
print("RESULT end", file=said, flush=True)
PYTHON

status=0
timeout $((limit + 60)) "$root/scripts/guest.sh" -t "$limit" sh "$dir/guest.sh" 10.0.2.2 "$port" "$nqn" "$dir/run.py" "$tree" "$nvme" "$@" \
    >"$dir/out" 2>&1 || status=$?
[ "$status" -ne 77 ] || { cat "$dir/out" >&2; exit 77; }
grep -q '^RESULT end$' "$dir/out" || { cat "$dir/out" >&2; fail "the tests did not come to their end (status $status)"; }
kill -0 "$drive" 2>/dev/null || fail "the drive has ended: $(tail -3 "$said")"

strict=1
[ ! -d "$tree/tests/e2e" ] || strict=0
awk -v strict=$strict '
    NR == FNR { name = $1; sub(/^[^ ]* /, ""); known[name] = $0; next }
    $1 == "#" { detail[last] = detail[last] "\n    " $0; next }
    $1 != "RESULT" || $2 == "end" { next }
    {
        last = $3
        why = $0
        sub(/^RESULT [^ ]* [^ ]* ?/, "", why)
        count[$2]++
        if ($2 == "failed" && $3 in known) { printf "%-8s %s: %s\n", "known", $3, known[$3]; expected++ }
        else if ($2 == "passed" && $3 in known && strict) { printf "%-8s %s: should fail, but passes\n", "wrong", $3; wrong++ }
        else {
            printf "%-8s %s%s\n", $2, $3, why == "" ? "" : ": " why
            if ($2 == "failed") { wrong++; bad[last] = 1 }
        }
    }
    END {
        for (name in bad) print name detail[name]
        printf "%d passed, %d failed as they must, %d skipped, %d wrong\n", count["passed"], expected, count["skipped"], wrong
        exit wrong > 0 || count["passed"] == 0
    }' "$dir/known" "$dir/out"
