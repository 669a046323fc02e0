# Guest script: locks of two Linux clients at our server. Each client is a network namespace with an address, a
# name, an rpcbind and a status monitor of its own; the server is beside them. nfsdemo and veth.ko are on the share.
insmod /mnt/share/veth.ko || { echo "FAIL veth"; exit 1; }
modprobe -a sunrpc lockd nfsv3
ip link set lo up
mkdir -p /tmp/e /tmp/state /run/rpcbind
rpcbind -w 2>/dev/null || rpcbind
pid=
serve() {
  /mnt/share/nfsdemo serve --export /tmp/e,no_root_squash,insecure,fsid=e --listen "" --mount-listen "" --tcp 0.0.0.0:2049 --register --state /tmp/state >/tmp/serve.log 2>&1 &
  pid=$!
  for _ in $(seq 300); do grep -q 'mount -t nfs' /tmp/serve.log && break; sleep 0.1; done
}
serve
check "the server serves locks" grep -q 'locks     on' /tmp/serve.log
check "it prints a command without nolock" sh -c '! grep -q nolock /tmp/serve.log'
cat /tmp/serve.log

declare -A keeper
client() { # client N: its namespace, with what a client needs
  local n=$1
  ip netns add c$n
  ip link add v$n type veth peer name eth0 netns c$n
  ip addr add 10.9.$n.1/24 dev v$n && ip link set v$n up
  ip netns exec c$n sh -c "ip link set lo up; ip addr add 10.9.$n.2/24 dev eth0; ip link set eth0 up"
  ip netns exec c$n unshare -mu --propagation private sh -c "
    hostname c$n
    mount -t tmpfs tmpfs /run && mkdir /run/rpcbind && mount -t tmpfs tmpfs /var/lib/nfs && mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak
    rpcbind; rpc.statd --no-notify; mkdir -p /tmp/m$n; touch /tmp/ready$n; exec sleep 100000" &
  keeper[$n]=$!
  for _ in $(seq 300); do [ -e /tmp/ready$n ] && break; sleep 0.1; done
}
on() { # on N COMMAND...
  local n=$1
  shift
  nsenter -t ${keeper[$n]} -m -u -n -- "$@"
}
client 1
client 2
check "client 1 mounts" on 1 mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,mountproto=tcp 10.9.1.1:/tmp/e /tmp/m1
check "client 2 mounts" on 2 mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,mountproto=tcp 10.9.2.1:/tmp/e /tmp/m2
touch /tmp/e/f

hold() { # hold N: client N holds the lock until release N
  rm -f /tmp/held$1 /tmp/go$1
  on $1 flock -x /tmp/m$1/f sh -c "touch /tmp/held$1; while [ ! -e /tmp/go$1 ]; do sleep 0.1; done" &
  holder=$!
  for _ in $(seq 600); do [ -e /tmp/held$1 ] && return; sleep 0.1; done
  return 1
}
hold 1 && echo "ok client 1 holds the lock" || fail "client 1 holds the lock"
check "client 2 is refused" sh -c '! "$@"' sh nsenter -t ${keeper[2]} -m -u -n -- timeout 60 flock -n /tmp/m2/f true
from=$(date +%s%N)
on 2 timeout 120 flock -x /tmp/m2/f date +%s%N >/tmp/got &
waiter=$!
sleep 3
touch /tmp/go1
released=$(date +%s%N)
wait $waiter && got=$(cat /tmp/got) && ms=$(((got - released) / 1000000))
echo "client 2 got the lock ${ms:-never} ms after client 1 gave it back"
[ "${ms:-99999}" -lt 15000 ] && echo "ok by GRANTED, not when it asked again" || fail "GRANTED"
wait $holder

hold 1
on 2 timeout -s INT 4 flock -x /tmp/m2/f true
touch /tmp/go1; wait $holder
check "a wait that was interrupted leaves nothing" on 1 timeout 60 flock -n /tmp/m1/f true

cat >/tmp/parts.py <<'PY'
import fcntl, sys
f = open(sys.argv[1], "r+")
fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, int(sys.argv[2]))
PY
on 1 python3 -c "
import fcntl, time, os
f = open('/tmp/m1/f', 'r+'); fcntl.lockf(f, fcntl.LOCK_EX, 10, 0); open('/tmp/part', 'w'); time.sleep(20)" &
parts=$!
for _ in $(seq 300); do [ -e /tmp/part ] && break; sleep 0.1; done
check "fcntl: another part is free" on 2 python3 /tmp/parts.py /tmp/m2/f 10
check "fcntl: the same part is not" sh -c '! "$@"' sh nsenter -t ${keeper[2]} -m -u -n -- python3 /tmp/parts.py /tmp/m2/f 9
wait $parts

hold 1
kill -9 $pid; wait $pid 2>/dev/null
serve
check "the server serves locks again" grep -q 'locks     on' /tmp/serve.log
cat /tmp/serve.log
check "client 2 is refused after the restart: client 1 has reclaimed" sh -c '! "$@"' sh nsenter -t ${keeper[2]} -m -u -n -- timeout 120 flock -n /tmp/m2/f true
on 2 timeout 120 flock -x /tmp/m2/f touch /tmp/second &
waiter=$!
sleep 2
on 1 sm-notify -f 2>/dev/null
for _ in $(seq 600); do [ -e /tmp/second ] && break; sleep 0.1; done
check "client 1 starts again: client 2 has the lock" test -e /tmp/second
touch /tmp/go1; wait $holder $waiter
cat /tmp/serve.log | tail -20
check "umount 1" on 1 umount /tmp/m1
check "umount 2" on 2 umount /tmp/m2
kill $pid; wait $pid
finish
