# power-lib.sh: the machine of power.sh and power-nfs.sh, which source it from the top of the
# tree. The guest runs $tmp/guest.sh with $disk as /dev/vdb; ports $port and $port+1 of this host
# are its 7001 and 7002. Of the sourcing script are
#   prepare   readies $share, the directory shared with the guest
#   told      prints how much the clients have been told so far
#   found     a file or directory in $share that is there when the guest is up
here=conformance/linux
rounds=${ROUNDS:-50} seed=${SEED:-$RANDOM} RANDOM=${SEED:-$RANDOM}
bash "$here/build.sh"
tmp=$(mktemp -d)
share=$tmp/share disk=$tmp/disk
mkdir "$share"
pids=()
plug() { # kills the guest, if it runs
  if [ -s "$tmp/qemu.pid" ]; then kill -9 "$(cat "$tmp/qemu.pid")" 2>/dev/null || true; rm -f "$tmp/qemu.pid"; fi
}
cleanup() {
  plug
  for p in "${pids[@]+"${pids[@]}"}"; do kill "$p" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$tmp"
}
trap cleanup EXIT
truncate -s 256M "$disk"
mkfs.ext4 -q -F "$disk"
mkfifo "$tmp/stdin" # of the clients, which end with this shell
exec 9<>"$tmp/stdin"

boot() { # boot ROUND [ARGS of run.sh]: the disk cache is writeback in odd rounds
  local round=$1 vm
  shift
  if [ $((round % 2)) = 0 ]; then cache=none; else cache=writeback; fi
  prepare
  for _ in 1 2 3 4 5; do # ports may have been taken meanwhile
    port=$((20000 + RANDOM % 20000))
    bash "$here/run.sh" -t 3600 -d "$share" -f "$port:7001" -f "$((port + 1)):7002" -m 512 "$@" \
      -X "-drive if=none,id=log,file=$disk,format=raw,cache=$cache -device virtio-blk-pci,drive=log -pidfile $tmp/qemu.pid" \
      "$tmp/guest.sh" >"$tmp/guest.log" 2>&1 9>&- &
    vm=$!
    pids+=("$vm")
    for _ in $(seq 9000); do
      [ -e "$share/found" ] && return
      kill -0 "$vm" 2>/dev/null || break
      sleep 0.1
    done
    grep -q 'host forwarding' "$tmp/guest.log" || break
  done
  echo "the guest does not come up:"; tail -20 "$tmp/guest.log"; exit 1
}
pull() { # pull MORE: pulls the plug when the clients have been told so much more
  local before
  before=$(told)
  for _ in $(seq 1200); do
    [ "$(told)" -gt $((before + $1)) ] && break
    sleep 0.1
  done
  [ "$(told)" -gt $((before + $1)) ] || { echo "nothing is acknowledged:"; tail -20 "$tmp"/*.log; exit 1; }
  sleep "0.$((RANDOM % 1000))"
  plug
  sleep 0.3
}
