#!/usr/bin/env bash
# listener.sh: findings 9 and 10 of docs/findings.md in the guest of STAG_LINUX_KERNEL (6.1 or 6.12): siw with the two
# patches beside this script keeps its port when clients connect and leave, and frees their endpoints; siw as it is does
# neither. Exits 0 if both hold.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/build.sh" >/dev/null
. "$here/cache.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$cache/siw-src" "$work/siw"
for p in listener endpoint; do patch -s -p5 -d "$work/siw" <"$here/siw-$p.patch"; done
rm "$work/siw/Makefile"
cp "$cache/siw-stock/Kbuild" "$work/siw"
kver=$(cat "$cache/kver")
head=$cache/kh/usr/src/linux-headers-$kver
[ -d "$head" ] || head=/usr/src/linux-headers-$kver
make -s -C "$head" M="$work/siw" modules >"$work/make.log" 2>&1 || { tail "$work/make.log"; exit 1; }
mkdir "$work/s"
cp "$work/siw/siw.ko" "$work/s"
(cd "$here/../.." && CGO_ENABLED=0 go build -o "$work/s" ./conformance)
"$here/run.sh" -t "${LIMIT:-900}" -m 2048 -d "$work/s" "$here/listener-guest.sh"
