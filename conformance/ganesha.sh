#!/usr/bin/env bash
# ganesha.sh: nfs-ganesha, which knows nothing of RDMA, behind nfsdemo proxy: our client
# copies files through RDMA to TCP, and through TCP to RDMA to TCP (Debian packages
# nfs-ganesha, nfs-ganesha-vfs, rpcbind; root). Prints what passed; exits 1 at the first
# failure.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
pids=()
cleanup() {
  for p in "${pids[@]+"${pids[@]}"}"; do kill "$p" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$tmp"
}
trap cleanup EXIT
. conformance/wait.sh
read -r nfs mount < <(free_ports 2)
mkdir "$tmp/export"
. conformance/ganesha-start.sh
go build -o "$tmp/nfsdemo" ./nfsdemo
ganesha_start "$tmp" "$nfs" "$mount" || { echo "nfs-ganesha does not start:"; tail -20 "$tmp/log"; exit 1; }
pids+=("$gpid" ${rpid:-})

front() { # FILE ARGS...: starts a proxy and waits for its port file
  local file=$1
  shift
  "$tmp/nfsdemo" proxy --port-file "$file" "$@" >/dev/null &
  pids+=($!)
  wait_for $! [ -e "$file" ] && return
  echo "the proxy does not start"
  exit 1
}
field() { sed -n "s/^$2=//p" "$1"; }
front "$tmp/rdma" --to "nfs://127.0.0.1:$nfs?mountport=$mount" --listen 127.0.0.1:0 --mount-listen 127.0.0.1:0
rdma=$(field "$tmp/rdma" RDMA) mountport=$(field "$tmp/rdma" MOUNT)
mountport=${mountport##*:}
front "$tmp/tcp" --to "nfs+rdma://$rdma" --listen 127.0.0.1:0
tcp=$(field "$tmp/tcp" TCP)

passed=0
for url in "nfs+rdma://$rdma$tmp/export" "nfs://$tcp$tmp/export"; do
  for size in 0 1 4095 4097 65537 8388611; do
    head -c "$size" /dev/urandom >"$tmp/in"
    "$tmp/nfsdemo" cp -q "$tmp/in" "$url/file?mountport=$mountport"
    "$tmp/nfsdemo" cp -q "$url/file?mountport=$mountport" "$tmp/out"
    cmp "$tmp/in" "$tmp/out"
    cmp "$tmp/in" "$tmp/export/file"
    passed=$((passed + 1))
  done
  "$tmp/nfsdemo" mkdir -p "$url/a/b?mountport=$mountport"
  "$tmp/nfsdemo" mv "$url/file?mountport=$mountport" "$url/a/b?mountport=$mountport"
  "$tmp/nfsdemo" ls -R "$url?mountport=$mountport" | grep -qx file
  "$tmp/nfsdemo" rm -r "$url/a?mountport=$mountport"
  [ -z "$(ls -A "$tmp/export")" ]
  passed=$((passed + 1))
done
echo "nfs-ganesha behind nfsdemo proxy: $passed passed, 0 failed"
