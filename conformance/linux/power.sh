#!/usr/bin/env bash
# power.sh: pulls the plug of a machine that holds a commit log. The consumer runs in the
# guest, its log on a disk of its own (ext4); the producer runs here. QEMU is killed with
# SIGKILL in mid-load, the guest is booted again, and what its disk holds is compared with
# what the producer was told is durable. Rounds are divided between the disk cache modes
# none and writeback. Prints a line per round; exits 1 at the first difference.
#   ROUNDS (50), SEED (random), STAG_LINUX_ACCEL (see run.sh), TMPDIR (the disk image)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
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
CGO_ENABLED=0 go test -c -o "$share/commitlog.test" ./transport/commitlog

cat >"$tmp/guest.sh" <<'GUEST'
modprobe ext4
mkdir -p /log
mount -t ext4 /dev/vdb /log || exit 9
export STAG_COMMITLOG_DIR=/log STAG_COMMITLOG_LISTEN=0.0.0.0:7001
cp /mnt/share/commitlog.test /tmp/
[ -e /log/log ] || tail -f /dev/null | STAG_COMMITLOG_CHILD=create /tmp/commitlog.test || exit 9
sync
rm -rf /mnt/share/found; mkdir /mnt/share/found.new
cp /log/log /mnt/share/found.new/; cp /log/applied /mnt/share/found.new/ 2>/dev/null
mv /mnt/share/found.new /mnt/share/found
tail -f /dev/null | STAG_COMMITLOG_CHILD=consumer /tmp/commitlog.test
GUEST

port=$((20000 + RANDOM % 20000))
boot() { # cache mode
  rm -rf "$share/found"
  bash "$here/run.sh" -t 3600 -d "$share" -f "$port:7001" -m 512 -X "-drive if=none,id=log,file=$disk,format=raw,cache=$1 -device virtio-blk-pci,drive=log -pidfile $tmp/qemu.pid" \
    "$tmp/guest.sh" >"$tmp/guest.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 9000); do
    [ -d "$share/found" ] && return
    sleep 0.1
  done
  echo "the guest does not come up:"; tail -20 "$tmp/guest.log"; exit 1
}
check() {
  cp "$tmp/acked" "$share/found/acked"
  STAG_COMMITLOG_CHILD=check STAG_COMMITLOG_DIR=$share/found "$share/commitlog.test" < <(sleep 600)
}

mkdir "$tmp/producer"
printf %s "127.0.0.1:$port" >"$tmp/producer/addr"
: >"$tmp/acked"
echo "seed $seed, $rounds rounds"
boot none
mkfifo "$tmp/stdin"
STAG_COMMITLOG_CHILD=producer STAG_COMMITLOG_DIR=$tmp/producer STAG_COMMITLOG_INCARNATION=1 \
  "$share/commitlog.test" <"$tmp/stdin" >"$tmp/acked" 2>"$tmp/producer.log" &
pids+=($!)
exec 9>"$tmp/stdin" # the producer ends with it
for round in $(seq "$rounds"); do
  before=$(wc -l <"$tmp/acked")
  for _ in $(seq 600); do
    [ "$(wc -l <"$tmp/acked")" -gt $((before + 20)) ] && break
    sleep 0.1
  done
  [ "$(wc -l <"$tmp/acked")" -gt "$before" ] || { echo "nothing is acknowledged:"; tail -20 "$tmp/guest.log" "$tmp/producer.log"; exit 1; }
  sleep "0.$((RANDOM % 1000))"
  plug
  if [ $((round % 2)) = 0 ]; then cache=none; else cache=writeback; fi
  sleep 0.3
  boot "$cache"
  printf 'round %d, disk cache %s from now on: ' "$round" "$cache"
  check || exit 1
done
