#!/usr/bin/env bash
# bench-nfs.sh: BenchmarkNFS of conformance/internal/bench, with nfs-ganesha and go-nfs (transport/examples/gonfs) as
# further servers, and libnfs as a further client (Debian packages nfs-ganesha, nfs-ganesha-vfs, rpcbind, libnfs-dev, gcc;
# root). It runs in a network namespace of its own, whose connections all use the congestion control reno. ROUNDS, TIME
# and ONLY as in bench.sh; prints what go test prints.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${STAG_NETNS:-}" ]; then
  [ -e /usr/include/nfsc/libnfs.h ] && command -v cc >/dev/null ||
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libnfs-dev gcc libc6-dev >/dev/null
  STAG_NETNS=1 exec unshare -n bash "$0" "$@"
fi
ip link set lo up
ip address add 192.0.2.1/32 dev lo # ganesha looks up names only if there is an address besides loopback
echo reno >/proc/sys/net/ipv4/tcp_congestion_control
at=/dev/shm
[ -d $at ] || at=${TMPDIR:-/tmp}
tmp=$(mktemp -d -p $at)
export STATE_DIRECTORY=$tmp/state # servers here leave alone what this machine has
pids=()
cleanup() {
  for p in "${pids[@]+"${pids[@]}"}"; do kill "$p" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$tmp"
}
trap cleanup EXIT
. conformance/wait.sh
read -r nfs mount go < <(free_ports 3)
mkdir "$tmp/export"
. conformance/ganesha-start.sh
go test -c -o "$tmp/bench" ./conformance/internal/bench
cc -O2 -o "$tmp/libnfs" conformance/internal/bench/testdata/libnfs.c -lnfs
(cd transport/examples/gonfs && go build -o "$tmp/gonfs" .)
servers=
if ganesha_start "$tmp" "$nfs" "$mount"; then
  pids+=("$gpid" ${rpid:-})
  servers="ganesha=$gpid=nfs://127.0.0.1:$nfs$tmp/export?mountport=$mount"
else
  echo "without nfs-ganesha, which does not start:" >&2
  grep CRIT "$tmp/log" >&2 || true
fi
"$tmp/gonfs" -listen 127.0.0.1:0 -mount-listen "127.0.0.1:$go" >/dev/null & # NFS too, on the port of MOUNT
pids+=($!)
servers="${servers:+$servers,}go-nfs=$!=nfs://127.0.0.1:$go/?mountport=$go"
for i in $(seq "${ROUNDS:-7}"); do
  echo "NFS: round $i of ${ROUNDS:-7}" >&2
  "$tmp/bench" -test.run '^$' -test.bench "${ONLY:-NFS}" -test.benchtime "${TIME:-300ms}" -at "$at" -servers "$servers" -libnfs "$tmp/libnfs"
done
