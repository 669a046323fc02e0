#!/bin/sh
# matrix.sh DIR: starts the peers that run on this machine without a kernel of their own, and writes their columns of the
# matrix into DIR: our server, our proxy before an NFS/TCP server, go-nfs under our listener; our command and our proxy
# as clients. linux/matrix.sh adds those of the kernel.
set -eu
out=$(realpath -m "${1:-dist/matrix}")
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
export STATE_DIRECTORY=$tmp/state # servers here leave alone what this machine has
chmod 755 "$tmp" # the server maps root to nobody
trap 'kill $pids 2>/dev/null || true; wait; rm -rf "$tmp"' EXIT
pids=
export CGO_ENABLED=0
go build -o "$tmp" ./conformance ./nfsdemo
(cd transport/examples/gonfs && go build -o "$tmp/gonfs" .)
head -c 30001 /dev/urandom >"$tmp/f"
rev=$(git rev-parse --short HEAD)
gonfs=$(cd transport/examples/gonfs && go list -m -f '{{.Path}} {{.Version}}' github.com/willscott/go-nfs)

"$tmp/nfsdemo" serve --export "$tmp" --listen 127.0.0.1:23001 --tcp 127.0.0.1:23002 --mount-listen 127.0.0.1:0 --log error &
pids="$pids $!"
sleep 1
"$tmp/nfsdemo" proxy --to nfs://127.0.0.1:23002 --listen 127.0.0.1:23003 --log error &
pids="$pids $!"
"$tmp/gonfs" -listen 127.0.0.1:23004 >/dev/null 2>&1 &
pids="$pids $!"
sleep 1

mkdir -p "$out"
PATH="$tmp:$PATH" "$tmp/conformance" matrix \
  --server stag=127.0.0.1:23001 --about "stag=nfsdemo serve, revision $rev" \
  --server stag-proxy=127.0.0.1:23003 --about "stag-proxy=nfsdemo proxy before nfsdemo serve over TCP, revision $rev" \
  --server go-nfs=127.0.0.1:23004 --about "go-nfs=$gonfs under stag's listener (transport/examples/gonfs)" \
  --behind 127.0.0.1:23001 \
  --client "stag-cat=nfsdemo cat --call-timeout 3s nfs+rdma://\$STAG_ADDRESS$tmp/f >/dev/null" --about "stag-cat=nfsdemo cat, revision $rev" \
  --client "stag-proxy-client=$PWD/conformance/matrix-proxy.sh $tmp" \
  --about "stag-proxy-client=nfsdemo cat over TCP through nfsdemo proxy --to nfs+rdma, revision $rev" "$out"
