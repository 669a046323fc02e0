#!/usr/bin/env bash
# Installs the Debian package of dist/, runs what its unit runs, as systemd would, and removes it again; does so in roots of
# Debian 12 and 13, if there is mmdebstrap; builds the container, if there is buildah; builds all of dist/ again elsewhere, which
# must give the same octets; and has go install build the command from a module proxy of files, with no module in its cache
# (Debian, root: make release-check, with the VERSION of make release). However it ends, the package is gone.
set -euo pipefail
cd "$(dirname "$0")/.."
deb=$(ls dist/nfsdemo_*_"$(dpkg --print-architecture)".deb)
say() { printf '== %s\n' "$*"; }
fail() { echo "release-check: $*" >&2; exit 1; }
! dpkg -s nfsdemo >/dev/null 2>&1 || fail "nfsdemo is installed on this machine, and would be removed: apt purge nfsdemo first"
work=$(mktemp -d)
server= installed=
cleanup() {
  trap '' INT TERM # make and timeout send them to each process, and again
  [ -z "$server" ] || { kill -KILL "$server" && wait "$server"; } 2>/dev/null || true
  if [ -n "$installed" ]; then
    rm -f /srv/nfs/release-check
    dpkg -P nfsdemo || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
wait_for() { # wait_for FILE TEXT
  for _ in $(seq 300); do grep -qs -- "$2" "$1" && return; sleep 0.1; done
  cat "$1" >&2
  fail "no \"$2\" in $1"
}

say "install $deb"
installed=yes
dpkg -i "$deb"
for unit in nfsdemo.service nfsdemo.socket nfsdemo-mount.socket; do
  systemd-analyze verify "/lib/systemd/system/$unit"
done
man nfsdemo-serve | grep -q -- --mount-listen || fail "no manual page"
bash -c '. /usr/share/bash-completion/completions/nfsdemo' || fail "the completion cannot be read"
/usr/bin/nfsdemo --version

say "ExecStart"
. /etc/default/nfsdemo
unit=/lib/systemd/system/nfsdemo.service
line=$(sed -n 's/^ExecStart=//p' "$unit")
caps=$(sed -n 's/^CapabilityBoundingSet=//p' "$unit" | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')
export STATE_DIRECTORY=$work/state
eval "exec setpriv --no-new-privs --bounding-set -all,$caps $line" >"$work/out" 2>"$work/err" &
server=$!
wait_for "$work/err" 'msg=serving'
url=nfs+rdma://127.0.0.1:20049/srv/nfs
echo hello >"$work/file"
! nfsdemo mkdir "$url/release-check" 2>"$work/refused" || fail "root is not squashed"
chown 1000 /srv/nfs
nfsdemo cp -q --uid 1000 --gid 1000 "$work/file" "$url/release-check"
nfsdemo cat "$url/release-check" | cmp - "$work/file"
nfsdemo rm --uid 1000 --gid 1000 "$url/release-check"
curl -sf http://127.0.0.1:9049/metrics | grep '^nfsdemo_build_info'
curl -sf http://127.0.0.1:9049/readyz
say "reload, stop"
mkdir -p "$work/more"
printf '[[export]]\npath = "%s"\n' "$work/more" >>/etc/nfsdemo.toml
kill -HUP "$server"
wait_for "$work/err" 'msg=reloaded'
nfsdemo ls "nfs+rdma://127.0.0.1:20049$work/more"
echo nonsense >>/etc/nfsdemo.toml
kill -HUP "$server"
wait_for "$work/err" 'not reloaded'
nfsdemo ls "nfs+rdma://127.0.0.1:20049$work/more"
kill -TERM "$server"
wait "$server" || fail "status $? after SIGTERM"
server=
cat "$work/err"

say "remove"
dpkg -P nfsdemo
installed=
[ ! -e /usr/bin/nfsdemo ] || fail "the program is left"

if command -v buildah >/dev/null; then
  say "container"
  buildah --storage-driver vfs --root "$work/containers" --runroot "$work/run" bud --isolation chroot -q \
    -f packaging/Containerfile --build-arg ARCH="$(dpkg --print-architecture)" -t nfsdemo . >"$work/image"
  c=$(buildah --storage-driver vfs --root "$work/containers" --runroot "$work/run" from nfsdemo)
  root=$(buildah --storage-driver vfs --root "$work/containers" --runroot "$work/run" mount "$c")
  mkdir -p "$root/export" "$root/proc"
  mount --rbind /proc "$root/proc" # as in a container
  trap 'umount -l "$root/proc"; cleanup' EXIT
  args=$(sed -n 's/^CMD //p' packaging/Containerfile | tr -d '[],"')
  # shellcheck disable=SC2086 # the arguments have no blanks
  env -u STATE_DIRECTORY chroot "$root" /nfsdemo $args >"$work/out" 2>"$work/err" &
  server=$!
  wait_for "$work/err" 'msg=serving'
  nfsdemo() { chroot "$root" /nfsdemo "$@"; }
  nfsdemo ls nfs+rdma://127.0.0.1:20049/export
  kill -TERM "$server"
  wait "$server" || fail "status $? after SIGTERM"
  server=
  umount -l "$root/proc"
  trap cleanup EXIT
  buildah --storage-driver vfs --root "$work/containers" --runroot "$work/run" umount "$c" >/dev/null
  buildah --storage-driver vfs --root "$work/containers" --runroot "$work/run" rm "$c" >/dev/null
else
  echo "skipped: no buildah here (apt-get install buildah): the container is not built"
fi
if command -v mmdebstrap >/dev/null; then
  for suite in bookworm trixie; do
    say "Debian $suite"
    mmdebstrap --quiet --variant=apt --aptopt='Acquire::Languages "none"' "$suite" "$work/$suite"
    cp "$deb" "$work/$suite/nfsdemo.deb"
    chroot "$work/$suite" dpkg -i /nfsdemo.deb
    # With /proc, which the server needs, in a namespace that takes it along when it ends.
    env -u TMPDIR unshare --mount sh -c 'mount -t proc proc "$1/proc" && chroot "$1" nfsdemo --version && chroot "$1" nfsdemo demo --max 1048576' - "$work/$suite"
    rm -rf "${work:?}/$suite"
  done
else
  echo "skipped: no mmdebstrap here (apt-get install mmdebstrap): roots of Debian 12 and 13 are not tried"
fi

if [ -z "$(git status --porcelain)" ]; then
  say "the same again: another directory, an empty build cache"
  git clone -q . "$work/again"
  (cd "$work/again" && GOCACHE=$work/gocache bash packaging/release.sh >/dev/null)
  diff dist/SHA256SUMS "$work/again/dist/SHA256SUMS" || fail "a second build differs: is dist/ of this commit and VERSION?"
  rm -rf "$work/again" "$work/gocache"

  say "go install from a proxy"
  module=$(sed -n 's/^module //p' go.mod) version=v0.0.1-check
  files=$work/proxy/$module/@v
  mkdir -p "$files"
  nested=$(git ls-files '*/go.mod' | sed 's|/go.mod$||; s|^|:(exclude)|')
  # shellcheck disable=SC2086 # one word for each module
  git archive --format=zip --prefix="$module@$version/" -o "$files/$version.zip" HEAD -- . $nested
  cp go.mod "$files/$version.mod"
  echo "{\"Version\":\"$version\"}" >"$files/$version.info"
  echo "$version" >"$files/list"
  # What it needs else has been downloaded for this build, and compared with go.sum.
  downloads=$(go env GOMODCACHE)/cache/download
  GOMODCACHE=$work/mod GOPROXY="file://$work/proxy,file://$downloads" GONOSUMDB='*' \
    GOFLAGS="-modcacherw -trimpath" GOBIN=$work/bin go install "$module/nfsdemo@$version"
  "$work/bin/nfsdemo" --version | grep -F " $version," || fail "go install has built another version"
else
  echo "skipped: there are uncommitted changes: nothing is built a second time"
fi
say "passed"
