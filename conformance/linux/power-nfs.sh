#!/usr/bin/env bash
# power-nfs.sh: pulls the plug of a machine that serves NFS. The server runs in the guest, its
# files on a disk of its own (ext4); the clients of nfsdemo/internal/crash run
# here, with the lists of what they were told. QEMU is killed with SIGKILL in mid-load, the
# guest is booted again, and when its server is ready what the disk holds is compared with the
# lists, before a client may say another word. Then the clients send again what has no answer.
# Rounds are divided between the disk cache modes none and writeback. Prints a line per round; exits 1 at the first
# difference.
#   ROUNDS (50), SEED (random), SERVE (further arguments of serve; its files lie in /disk/kept),
#   STAG_LINUX_ACCEL (see run.sh), TMPDIR (the disk image)
set -euo pipefail
cd "$(dirname "$0")/../.."
. conformance/linux/power-lib.sh
serve=${SERVE-}
CGO_ENABLED=0 go test -c -o "$share/crash.test" ./nfsdemo/internal/crash
work=$tmp/work
mkdir -p "$work/lists"

cat >"$tmp/guest.sh" <<'GUEST'
modprobe ext4
mkdir -p /disk /state
mount -t ext4 /dev/vdb /disk || exit 9
mkdir -p /disk/export/shared /disk/kept
ln -sfn /mnt/share/lists /disk/lists
sync
cp /mnt/share/crash.test /tmp/
export STAG_CRASH_DIR=/disk
export STAG_CRASH_SERVE="--squash none --state /disk/state --export /disk/export,insecure --listen 0.0.0.0:7001 --tcp 0.0.0.0:7002 --mount-listen= --port-file /state/port $SERVE"
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

prepare() {
  rm -rf "$share/found" "$share/lists"
  cp -r "$work/lists" "$share/lists"
}
told() { cat "$work"/lists/* 2>/dev/null | wc -c || true; }
publish() { # life of the server: tells the clients where it is
  printf 'EXPORT=/disk/export\nRDMA=127.0.0.1:%d\nTCP=127.0.0.1:%d\nPID=%d\n' "$port" "$((port + 1))" "$1" >"$work/addr.new"
  mv "$work/addr.new" "$work/addr"
}

echo "seed $seed, $rounds rounds, serve $serve"
boot 0 -e "SERVE=$serve"
publish 0
for c in 1 2; do
  STAG_CRASH_CHILD=client STAG_CRASH_DIR=$work STAG_CRASH_CLIENT=$c STAG_CRASH_LIFE=1 \
    "$share/crash.test" <"$tmp/stdin" >"$tmp/client$c.log" 2>&1 9>&- &
  pids+=($!)
done
for round in $(seq "$rounds"); do
  pull 8000
  rm -f "$work/addr"
  boot "$round" -e "SERVE=$serve"
  printf 'round %d, disk cache %s from now on: %s\n' "$round" "$cache" "$(head -1 "$share/found")"
  grep -q '^status 0' "$share/found" || { cat "$share/found" "$tmp"/client*.log; cat "$share/server.log"; exit 1; }
  publish "$round"
done
