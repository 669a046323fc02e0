#!/usr/bin/env bash
# matrix.sh DIR [server|client]...: writes the columns of the kernel into DIR: knfsd as a server, the kernel's mount as a
# client, both over siw, in the guest of STAG_LINUX_KERNEL (6.1 or 6.12). Everything is in the guest, on its own address,
# so that nothing between the peers cuts TCP segments anew. A case that takes knfsd down ends the guest; the next one
# goes on after it. ONLY is a regular expression of cases, SKIP another one (default: load).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath -m "${1:?usage: matrix.sh DIR [server|client]...}")
shift
[ $# -gt 0 ] || set -- server client
"$here/build.sh" >/dev/null || exit
. "$here/cache.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here/../.." || exit
mkdir -p "$out" "$work/s/matrix"
CGO_ENABLED=0 go build -o "$work/s" ./conformance ./nfsdemo || exit
cp "$cache"/kx/lib/modules/*/kernel/net/ipv4/{inet,tcp}_diag.ko "$work/s" # with which nfsdemo serve knows its local callers
rev=$(git rev-parse --short HEAD)
kernel=$(dpkg-deb -f "$cache"/debs/linux-image-*.deb Version)
version=$(cut -d- -f1 "$cache/kver")
for role; do
  case $role in
  server) name=knfsd-$(cut -d. -f1,2 <<<"$version") about="knfsd of Debian's Linux $kernel over its siw" ;;
  client) name=mount-$(cut -d. -f1,2 <<<"$version") about="mount -o vers=3,rdma of Debian's Linux $kernel over its siw, behind the trap nfsdemo serve, revision $rev" ;;
  *) echo "matrix.sh: server or client, not $role" >&2; exit 2 ;;
  esac
  rm -f "$work/s/done"
  before=-1
  while [ ! -e "$work/s/done" ]; do # a boot for each case that takes it down
    played=$(grep -c '"case"' "$work/s/matrix/$name.json" 2>/dev/null)
    [ "${played:-0}" != "$before" ] || { echo "matrix.sh: $name goes no further"; break; }
    before=${played:-0}
    "$here/run.sh" -t "${LIMIT:-1500}" -d "$work/s" -m 2048 -e "ROLE=$role" -e "NAME=$name" -e "ABOUT=$about" \
      ${ONLY:+-e "ONLY=$ONLY"} ${SKIP:+-e "SKIP=$SKIP"} "$here/matrix-guest.sh"
  done
done
cp "$work"/s/matrix/* "$out"
"$work/s/conformance" matrix "$out"
