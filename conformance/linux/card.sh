#!/usr/bin/env bash
# Linux and stag over verbs: nfsdemo/stagcard in one guest, Linux's NFS client and stag's in two others, over soft RoCE and
# soft iWARP; see card-guest.sh. What went between the guests is judged.
#
# usage: card.sh [rxe|siw]... (Debian 12, root, with libibverbs-dev and librdmacm-dev; 10 to 15 min each with the guest built)
# MOUNTS=200 is how many mounts are made one after the other (default 50).
# Prints one line per check; exit 1 on any failure.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
. "$here/cache.sh"
log=$(mktemp)
"$here/build.sh" >"$log" 2>&1 || { cat "$log"; exit 1; }
rm "$log"
work=$(mktemp -d)
pids=
trap 'for p in $pids; do kill -9 -- -$p 2>/dev/null; done; rm -rf "$work"' EXIT
set -m # each guest is a process group
mkdir -p "$work/bin/mods"
(cd "$top/nfsdemo/stagcard" && go build -o "$work/bin/stagcard" .)
(cd "$top/rdmap/card" && go test -c -o "$work/bin/card.test" .)
(cd "$top" && go build -o "$work/conformance" ./conformance)
cat "$here/linux.expect" "$here/cut.expect" >"$work/expect"
cp "$(command -v git)" "$work/bin/" && ln -s git "$work/bin/git-upload-pack"
find "$cache"/kx/lib/modules -name udp_tunnel.ko -exec cp {} "$work/bin/mods/" ";" # 6.12 has it built in
rc=0
check() { if "${@:2}" >"$work/out" 2>&1; then echo "ok $1"; else echo "FAIL $1: $(tail -3 "$work/out")"; rc=1; fi; }

guest() { # guest ROLE N ARGS: one of the three; its second network card is at ARGS of QEMU, which end in the name n1
  mkdir -p "$work/$1" && cp -r "$work/bin/." "$work/$1/"
  "$here/run.sh" -t 3000 -c 1 -m 768 -d "$work/$1" -e "DEV=$dev" -e "ROLE=$1" -e "N=$2" -e "MOUNTS=${MOUNTS:-50}" \
    -X "$3 -device virtio-net-pci,netdev=n1,mac=52:54:00:99:00:0$2 -fsdev local,id=both,path=$work/both,security_model=none \
-device virtio-9p-pci,fsdev=both,mount_tag=both" "$here/card-guest.sh"
}
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
ask() { # ask COMMAND: has the server do it
  rm -f "$work/both/done"
  echo "$1" >"$work/both/do.new" && mv "$work/both/do.new" "$work/both/do"
  until [ -e "$work/both/done" ]; do kill -0 "$server" && sleep 0.2 || return; done
  cat "$work/both/said"
  [ "$(cat "$work/both/done")" = 0 ]
}
vanishes() { # a client that is gone without a word is given up within a minute
  local fds
  ask export_ && fds=$(ask fds) || return
  : >"$work/both/vanish"
  until [ -e "$work/both/mounted" ]; do kill -0 "$second" && sleep 0.2 || { cat "$work/second.log"; return 1; }; done
  [ "$(ask fds)" -gt "$fds" ] || return
  kill -9 -- -"$second"
  ask "fds_are $fds 60" && ask nothing_locked
}
for dev in "${@:-rxe}"; do
  one=$(port) two=$(port)
  rm -rf "$work"/{server,client,second,both} && mkdir "$work/both"
  guest server 1 "-netdev socket,id=s1,listen=127.0.0.1:$one -netdev hubport,hubid=1,id=h1,netdev=s1 \
-netdev socket,id=s2,listen=127.0.0.1:$two -netdev hubport,hubid=1,id=h2,netdev=s2 -netdev hubport,hubid=1,id=n1 \
-object filter-dump,id=d1,netdev=n1,file=$work/all.pcap,maxlen=262144" >"$work/server.log" 2>&1 &
  server=$!
  sleep 1
  guest second 3 "-netdev socket,id=n1,connect=127.0.0.1:$two" >"$work/second.log" 2>&1 &
  second=$!
  pids="$server $second"
  guest client 2 "-netdev socket,id=n1,connect=127.0.0.1:$one" || rc=1
  check "$dev: a client that vanishes" vanishes
  : >"$work/both/stop"
  wait "$server" || { rc=1; cat "$work/server.log"; }
  kill -9 -- -"$second" 2>/dev/null || true
  pids=
  check "$dev: the judge finds only what Linux is known for, and the cuts" "$work/conformance" judge --expect "$work/expect" "$work/all.pcap"
  [ $rc = 0 ] || tail -n 20 "$work/both/stagcard.log" "$work/second.log"
done
exit $rc
