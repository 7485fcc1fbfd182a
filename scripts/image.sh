#!/bin/sh
# Makes a container image of the program from scratch: one layer with a static program, and nothing else to keep up to date (docs/howto/install.md).
#
#   usage: scripts/image.sh [DIR] [path of a static tranche]        default: out target/static/tranche
#
# Leaves DIR/tranche-VERSION-ARCHITECTURE.oci, an OCI image layout, and the same as one file, .oci.tar. Needs neither a daemon nor root, only coreutils, tar, gzip and
# binutils. The same program and the same change give the same image, byte by byte.
set -eu
# What programs print is read below.
export LC_ALL=C
umask 022

fail() { echo "image.sh: $*" >&2; exit 1; }
here=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-out}
tranche=${2:-${CARGO_TARGET_DIR:-$here/target}/static/tranche}
[ -x "$tranche" ] || fail "$tranche is missing; run: make image"
if readelf --program-headers "$tranche" | grep -q INTERP; then
    fail "$tranche needs shared libraries: the image has none (scripts/static.sh builds a static program)"
fi

version=$("$tranche" --version | awk '{ print $2 }')
case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) architecture=$(uname -m) ;;
esac
# The date of the last change is that of all files, so that an image can be made again.
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || stat -c %Y "$here/CHANGELOG.md")}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
revision=$(git -C "$here" rev-parse HEAD 2>/dev/null || true)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
tree=$work/tree
layout=$work/layout
mkdir -p "$layout/blobs/sha256"

# The user of the drive, whose home has its image. It has no password and no shell.
user=65532
install -D -m 755 "$tranche" "$tree/usr/bin/tranche"
strip --strip-unneeded "$tree/usr/bin/tranche"
install -D -m 644 "$here/LICENSE" "$tree/usr/share/doc/tranche/LICENSE"
mkdir -p "$tree/etc" "$tree/var/lib/tranche" "$tree/run/tranche" "$tree/tmp"
printf 'root:x:0:0:root:/:/sbin/nologin\ntranche:x:%s:%s::/var/lib/tranche:/sbin/nologin\n' $user $user >"$tree/etc/passwd"
printf 'root:x:0:\ntranche:x:%s:\n' $user >"$tree/etc/group"
# The C library finds names of hosts in this order.
printf 'hosts: files dns\n' >"$tree/etc/nsswitch.conf"

# Adds to the layer, as owner OWNER with mode MODE (of directories), what is named.
layer=$work/layer.tar
add() { # OWNER MODE NAME...
    owner=$1
    mode=$2
    shift 2
    tar --append --file "$layer" --format ustar --sort name --mtime "@$epoch" --numeric-owner --owner "$owner" --group "$owner" \
        ${mode:+--mode "$mode"} --directory "$tree" "$@"
}
add 0 '' etc usr
add 0 755 --no-recursion run var var/lib
add $user 700 --no-recursion run/tranche var/lib/tranche
add 0 1777 --no-recursion tmp
diff_id=$(sha256sum "$layer" | cut -d ' ' -f 1)
gzip -9n "$layer"

# Takes a file as a blob: sets `digest` and `size`.
blob() {
    digest=$(sha256sum "$1" | cut -d ' ' -f 1)
    size=$(stat -c %s "$1")
    mv "$1" "$layout/blobs/sha256/$digest"
}
blob "$layer.gz"
layer_descriptor="{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":\"sha256:$digest\",\"size\":$size}"

labels='"org.opencontainers.image.title":"tranche","org.opencontainers.image.description":"NVMe drive in software, and a laboratory for databases on it"'
labels=$labels',"org.opencontainers.image.licenses":"Apache-2.0"'
labels=$labels",\"org.opencontainers.image.version\":\"$version\",\"org.opencontainers.image.created\":\"$created\""
[ -z "$revision" ] || labels=$labels",\"org.opencontainers.image.revision\":\"$revision\""

# Other arguments replace those of Cmd. Commands look for a drive on the socket in XDG_RUNTIME_DIR, then on port 4420: so the health check also finds a drive with
# other arguments, if it listens on one of both. Times are nanoseconds.
cat >"$work/config" <<JSON
{"created":"$created","author":"The Tranche developers","architecture":"$architecture","os":"linux",
"config":{"User":"$user:$user","WorkingDir":"/var/lib/tranche",
"Env":["PATH=/usr/bin","XDG_RUNTIME_DIR=/run/tranche"],
"Entrypoint":["/usr/bin/tranche","serve"],
"Cmd":["--image","/var/lib/tranche/drive","--tcp","0.0.0.0:4420","--unix","/run/tranche/tranche.sock"],
"ExposedPorts":{"4420/tcp":{}},"Volumes":{"/var/lib/tranche":{}},"StopSignal":"SIGTERM",
"Healthcheck":{"Test":["CMD","/usr/bin/tranche","id"],"Interval":30000000000,"Timeout":10000000000,"StartPeriod":60000000000,"Retries":3},
"Labels":{$labels}},
"rootfs":{"type":"layers","diff_ids":["sha256:$diff_id"]},
"history":[{"created":"$created","created_by":"scripts/image.sh"}]}
JSON
blob "$work/config"
config_descriptor="{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"sha256:$digest\",\"size\":$size}"

media_type=application/vnd.oci.image.manifest.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","config":%s,"layers":[%s],"annotations":{%s}}\n' \
    $media_type "$config_descriptor" "$layer_descriptor" "$labels" >"$work/manifest"
blob "$work/manifest"
printf '{"imageLayoutVersion":"1.0.0"}\n' >"$layout/oci-layout"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"%s","digest":"sha256:%s","size":%s,"platform":{"architecture":"%s","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"%s"}}]}\n' \
    $media_type "$digest" "$size" "$architecture" "$version" >"$layout/index.json"

mkdir -p "$out"
image=$out/tranche-$version-$architecture.oci
rm -rf "$image"
tar --create --file "$image.tar" --format ustar --sort name --mtime "@$epoch" --numeric-owner --owner 0 --group 0 --directory "$layout" blobs index.json oci-layout
mv "$layout" "$image"
echo "$image.tar"
