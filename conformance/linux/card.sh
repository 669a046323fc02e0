#!/usr/bin/env bash
# Linux and stag over verbs: nfsdemo/stagcard in one guest, Linux's NFS client and stag's in another, over soft RoCE and
# soft iWARP; see card-guest.sh. What went between the guests is judged.
#
# usage: card.sh [rxe|siw]... (Debian, root, with libibverbs-dev and librdmacm-dev; about 5 min each with the guest built)
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
trap '[ -z "$pids" ] || kill $pids 2>/dev/null; rm -rf "$work"' EXIT
mkdir -p "$work/bin/mods"
(cd "$top/nfsdemo/stagcard" && go build -o "$work/bin/stagcard" .)
(cd "$top" && go build -o "$work/conformance" ./conformance)
find "$cache"/kx/lib/modules -name udp_tunnel.ko -exec cp {} "$work/bin/mods/" ";" # 6.12 has it built in
rc=0
check() { if "${@:2}" >"$work/out" 2>&1; then echo "ok $1"; else echo "FAIL $1: $(tail -3 "$work/out")"; rc=1; fi; }

guest() { # guest ROLE SIDE: one of the two, whose second network card is joined to the other's
  cp -r "$work/bin/." "$work/$1/"
  "$here/run.sh" -t 900 -c 1 -m 768 -d "$work/$1" -e "DEV=$dev" -e "ROLE=$1" -e "MOUNTS=${MOUNTS:-50}" -X "-netdev socket,id=n1,$2 \
-device virtio-net-pci,netdev=n1,mac=52:54:00:99:00:$(printf %02x "'$1") -object filter-dump,id=d1,netdev=n1,file=$work/$1.pcap,maxlen=262144 \
-fsdev local,id=both,path=$work/both,security_model=none -device virtio-9p-pci,fsdev=both,mount_tag=both" "$here/card-guest.sh"
}
ask() { # ask COMMAND: has the server do it
  rm -f "$work/both/done"
  echo "$1" >"$work/both/do.new" && mv "$work/both/do.new" "$work/both/do"
  until [ -e "$work/both/done" ]; do kill -0 "$server" && sleep 0.2 || return; done
  cat "$work/both/said"
  [ "$(cat "$work/both/done")" = 0 ]
}
vanishes() { # a client that is gone without a word is given up within a minute
  local fds client
  ask export_ && fds=$(ask fds) || return
  rm -f "$work/both/mounted"
  setsid bash -c "$(declare -f guest); here=$here work=$work dev=$dev; guest vanish connect=127.0.0.1:$port" >"$work/vanish.log" 2>&1 &
  client=$!
  until [ -e "$work/both/mounted" ]; do kill -0 $client && sleep 0.2 || { cat "$work/vanish.log"; return 1; }; done
  [ "$(ask fds)" -gt "$fds" ] || return
  kill -9 -- -$client
  ask "fds_are $fds 60" && ask nothing_locked
}
for dev in "${@:-rxe}"; do
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  rm -rf "$work"/{server,client,vanish,both} && mkdir -p "$work"/{server,client,vanish,both}
  guest server "listen=127.0.0.1:$port" >"$work/server.log" 2>&1 &
  server=$!
  pids=$server
  sleep 1
  guest client "connect=127.0.0.1:$port" || rc=1
  check "$dev: a client that vanishes" vanishes
  : >"$work/both/stop"
  wait "$server" || { rc=1; cat "$work/server.log"; }
  pids=
  check "$dev: the judge finds only what Linux is known for" "$work/conformance" judge --expect "$here/linux.expect" "$work/client.pcap"
  [ $rc = 0 ] || tail -20 "$work/both/stagcard.log"
done
exit $rc
