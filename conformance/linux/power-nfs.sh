#!/usr/bin/env bash
# power-nfs.sh: pulls the plug of a machine that serves NFS. The server runs in the guest, its
# files and journals on a disk of its own (ext4); the clients of nfsdemo/internal/crash run
# here, with the lists of what they were told. QEMU is killed with SIGKILL in mid-load, the
# guest is booted again, and when its server is ready what the disk holds is compared with the
# lists, before a client may say another word. Then the clients send again what has no answer.
# Rounds are divided between the disk cache modes none and writeback. Prints a line per round;
# exits 1 at the first difference.
#   ROUNDS (50), SEED (random), SERVE (further arguments of serve; its files lie in /disk/kept),
#   STAG_LINUX_ACCEL (see run.sh), TMPDIR (the disk image)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
rounds=${ROUNDS:-50} seed=${SEED:-$RANDOM} RANDOM=${SEED:-$RANDOM}
serve=${SERVE-"--intents /disk/kept/intents --push-log /disk/kept/push"}
case $serve in *--push-log*) pushing=yes ;; *) pushing= ;; esac
bash "$here/build.sh"
tmp=$(mktemp -d)
share=$tmp/share disk=$tmp/disk work=$tmp/work
mkdir -p "$share" "$work/lists"
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
CGO_ENABLED=0 go test -c -o "$share/crash.test" ./nfsdemo/internal/crash

cat >"$tmp/guest.sh" <<'GUEST'
modprobe ext4
mkdir -p /disk /state
mount -t ext4 /dev/vdb /disk || exit 9
mkdir -p /disk/export/shared /disk/kept
mkdir -p -m 700 /disk/kept/push
ln -sfn /mnt/share/lists /disk/lists
sync
cp /mnt/share/crash.test /tmp/
export STAG_CRASH_DIR=/disk
export STAG_CRASH_SERVE="--export /disk/export --listen 0.0.0.0:7001 --tcp 0.0.0.0:7002 --mount-listen= --port-file /state/port $SERVE"
tail -f /dev/null | STAG_CRASH_CHILD=server /tmp/crash.test 2>/mnt/share/server.log &
for _ in $(seq 600); do
  [ -e /state/port ] && break
  sleep 0.1
done
rm -f /mnt/share/found*
if [ -e /state/port ]; then
  tail -f /dev/null | STAG_CRASH_CHILD=check /tmp/crash.test >/mnt/share/found.new 2>&1
  echo "status $?" >>/mnt/share/found.new
else
  echo "the server does not start" >/mnt/share/found.new
  kill -QUIT $! # it says where it stands
  sleep 2
fi
mv /mnt/share/found.new /mnt/share/found
wait
GUEST

boot() { # cache mode
  rm -rf "$share/found" "$share/lists"
  cp -r "$work/lists" "$share/lists"
  for _ in 1 2 3 4 5; do # ports may have been taken meanwhile
    port=$((20000 + RANDOM % 20000))
    bash "$here/run.sh" -t 3600 -d "$share" -e "SERVE=$serve" -f "$port:7001" -f "$((port + 1)):7002" -m 512 \
      -X "-drive if=none,id=log,file=$disk,format=raw,cache=$1 -device virtio-blk-pci,drive=log -pidfile $tmp/qemu.pid" \
      "$tmp/guest.sh" >"$tmp/guest.log" 2>&1 &
    local vm=$!
    pids+=("$vm")
    for _ in $(seq 3000); do
      [ -e "$share/found" ] && return
      kill -0 "$vm" 2>/dev/null || break
      sleep 0.1
    done
    grep -q 'host forwarding' "$tmp/guest.log" || break
  done
  echo "the guest does not come up:"; tail -20 "$tmp/guest.log"; exit 1
}
publish() { # tells the clients where the server is
  printf 'EXPORT=/disk/export\nRDMA=127.0.0.1:%d\nTCP=127.0.0.1:%d\n' "$port" "$((port + 1))" >"$work/addr.new"
  mv "$work/addr.new" "$work/addr"
}
said() { cat "$work"/lists/* 2>/dev/null | wc -c; }

echo "seed $seed, $rounds rounds, serve $serve"
boot none
publish
mkfifo "$tmp/stdin"
for c in 1 2; do
  STAG_CRASH_CHILD=client STAG_CRASH_PUSH=$pushing STAG_CRASH_DIR=$work STAG_CRASH_CLIENT=$c STAG_CRASH_LIFE=1 \
    "$share/crash.test" <"$tmp/stdin" >"$tmp/client$c.log" 2>&1 &
  pids+=($!)
done
exec 9>"$tmp/stdin" # the clients end with it
for round in $(seq "$rounds"); do
  before=$(said)
  for _ in $(seq 1200); do
    [ "$(said)" -gt $((before + 8000)) ] && break
    sleep 0.1
  done
  [ "$(said)" -gt $((before + 8000)) ] || { echo "nothing is acknowledged:"; tail -20 "$tmp/guest.log" "$tmp"/client*.log; exit 1; }
  sleep "0.$((RANDOM % 1000))"
  plug
  rm -f "$work/addr"
  if [ $((round % 2)) = 0 ]; then cache=none; else cache=writeback; fi
  sleep 0.3
  boot "$cache"
  printf 'round %d, disk cache %s from now on: %s\n' "$round" "$cache" "$(head -1 "$share/found")"
  grep -q '^status 0' "$share/found" || { cat "$share/found" "$tmp"/client*.log; cat "$share/server.log"; exit 1; }
  publish
done
