#!/usr/bin/env bash
# power.sh: pulls the plug of a machine that holds a commit log. The consumer runs in the
# guest, its log on a disk of its own (ext4); the producer runs here. QEMU is killed with
# SIGKILL in mid-load, the guest is booted again, and what its disk holds is compared with
# what the producer was told is durable. Rounds are divided between the disk cache modes
# none and writeback. Prints a line per round; exits 1 at the first difference.
#   ROUNDS (50), SEED (random), STAG_LINUX_ACCEL (see run.sh), TMPDIR (the disk image)
set -euo pipefail
cd "$(dirname "$0")/../.."
. conformance/linux/power-lib.sh
CGO_ENABLED=0 go test -c -o "$share/commitlog.test" ./transport/commitlog
mkdir "$tmp/producer"
: >"$tmp/acked"

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

prepare() { rm -rf "$share/found"; }
told() { wc -l <"$tmp/acked"; }
publish() { printf %s "127.0.0.1:$port" >"$tmp/producer/addr"; }
check() {
  cp "$tmp/acked" "$share/found/acked"
  STAG_COMMITLOG_CHILD=check STAG_COMMITLOG_DIR=$share/found "$share/commitlog.test" <"$tmp/stdin"
}

echo "seed $seed, $rounds rounds"
boot 0
publish
STAG_COMMITLOG_CHILD=producer STAG_COMMITLOG_DIR=$tmp/producer STAG_COMMITLOG_INCARNATION=1 \
  "$share/commitlog.test" <"$tmp/stdin" >"$tmp/acked" 2>"$tmp/producer.log" 9>&- &
pids+=($!)
for round in $(seq "$rounds"); do
  pull 20
  boot "$round"
  printf 'round %d, disk cache %s from now on: ' "$round" "$cache"
  check
  publish
done
