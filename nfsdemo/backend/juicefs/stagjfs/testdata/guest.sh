# Guest script: two of the kernel's clients, over RDMA and TCP, work at an address behind which servers are killed. The
# address belongs to two links that move from the dead server to the other one.
#   DB     where the database is
#   KILLS  how often a server is killed
K=/mnt/share
insmod $K/veth.ko || { echo "FAIL veth"; exit 1; }
modprobe -a sunrpc lockd rpcrdma nfsv3
cp $K/stagjfs /tmp/stagjfs
mkdir -p /tmp/objects
ip link set lo up
STAGJFS_TEST_RELAY="0.0.0.0:5432 $DB" /tmp/stagjfs & # the servers have no other way out

# space NAME HOSTNAME: a network namespace with a host name, rpcbind and places of its own.
declare -A keeper
space() {
  ip netns list | grep -qx "$1" || ip netns add $1
  ip netns exec $1 unshare -mu --propagation private sh -c "
    hostname $1
    ip link set lo up
    mount -t tmpfs tmpfs /run && mkdir /run/rpcbind && mount -t tmpfs tmpfs /var/lib/nfs && mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak
    rpcbind; touch /tmp/ready-$1; exec sleep 100000" &
  keeper[$1]=$!
  for _ in $(seq 300); do [ -e /tmp/ready-$1 ] && return; sleep 0.1; done
  echo "FAIL space $1"
  exit 1
}
on() { # on NAME COMMAND...
  local at=${keeper[$1]}
  shift
  nsenter -t $at -m -u -n -- "$@"
}

# The links: n1 and n2 to the database, c1 and c2 of the clients, which end in e1 and e2 at the server that has the address.
for n in 1 2; do
  space s$n
  ip link add n$n type veth peer name db netns s$n
  ip addr add 10.8.$n.1/24 dev n$n && ip link set n$n up
  on s$n sh -c "ip addr add 10.8.$n.2/24 dev db; ip link set db up"
done
space c2
ip link add c1 type veth peer name e1 netns s1
ip link add c2 netns c2 type veth peer name e2 netns s1
ip addr add 10.9.1.1/24 dev c1 && ip link set c1 up
on c2 sh -c 'ip addr add 10.9.2.1/24 dev c2; ip link set c2 up'
hostname c1
mkdir -p /run/rpcbind /var/lib/nfs/sm /var/lib/nfs/sm.bak
rpcbind
rpc.statd --no-notify
on c2 rpc.statd --no-notify

active=1
address() { # address FROM TO: the address moves
  local e
  for e in 1 2; do
    [ $1 = $2 ] || ip -n s$1 link set e$e netns s$2
    ip -n s$2 addr add 10.9.$e.100/24 dev e$e
    ip -n s$2 link set e$e up
  done
  active=$2
}
serve() { # serve N: starts server N
  on s$1 sh -c 'echo $$ >/tmp/pid'$1'; exec "$@"' sh env STAGJFS_TEST_SERVER=1 /tmp/stagjfs serve "postgres://stag@10.8.$1.1:5432/postgres?sslmode=disable" \
    --export /,no_root_squash,insecure --listen 0.0.0.0:20049 --tcp 0.0.0.0:2049 --mount-listen 0.0.0.0:20048 --register --state /tmp/state$1 \
    --port-file /tmp/port$1 >>/tmp/serve$1.log 2>&1 &
}
serving() { # serving N: it serves
  for _ in $(seq 600); do [ -e /tmp/port$1 ] && return; sleep 0.1; done
  return 1
}
address 1 1
serve 1
serving 1 || { cat /tmp/serve1.log; echo "FAIL server 1"; exit 1; }
serve 2
serving 2 || { cat /tmp/serve2.log; echo "FAIL server 2"; exit 1; }
cat /tmp/serve1.log

A=/tmp/a B=/tmp/b
mkdir $A $B
SIW_DEVS=c1 siw_up || { echo "FAIL siw"; exit 1; }
mount_ -t nfs -o vers=3,rdma,port=20049,mountport=20048,mountproto=tcp,hard,timeo=100,actimeo=1 10.9.1.100:/ $A || { dmesg | tail -5; cat /tmp/serve1.log; echo "FAIL mount over RDMA"; exit 1; }
on c2 mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=20048,mountproto=tcp,hard,timeo=100,actimeo=1 10.9.2.100:/ $B || { cat /tmp/serve1.log; echo "FAIL mount over TCP"; exit 1; }
echo "mounted after $(cut -d' ' -f1 /proc/uptime) s"

cat >/tmp/work.py <<'PY'
import fcntl, mmap, os, random, struct, sys, time
what, where = sys.argv[1:3]
going = lambda: not os.path.exists("/tmp/stop")

# Blocks say what they are. Each is compared when it is read, at random and at the end, past the cache.
def direct():
    size, blocks, rnd = 65536, 64, random.Random(1)
    fd = os.open(where + "/direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
    buf = mmap.mmap(-1, size)
    times = [0] * blocks
    pattern = lambda n: (struct.pack(">QQ", n, times[n]) * (size // 16))[:size]
    def write(n):
        times[n] += 1
        buf[:] = pattern(n)
        if os.pwritev(fd, [buf], n * size) != size: sys.exit("short write")
    def read(n):
        if os.preadv(fd, [buf], n * size) != size: sys.exit("short read")
        if buf[:] != pattern(n): sys.exit("block %d is not what was written: %r, want %d times" % (n, buf[:16], times[n]))
    for n in range(blocks): write(n)
    ops = 0
    while going():
        write(rnd.randrange(blocks))
        read(rnd.randrange(blocks))
        ops += 1
    for n in range(blocks): read(n)
    print(ops, "blocks written and read")

# A log that is synced after each line, through the cache, and read back at the end.
def log():
    f = open(where + "/log", "w")
    n = worst = 0
    while going():
        f.write("line %d\n" % n * 50)
        began = time.time()
        f.flush()
        os.fsync(f.fileno())
        worst = max(worst, time.time() - began)
        n += 1
    f.close()
    open("/proc/sys/vm/drop_caches", "w").write("3")
    if open(where + "/log").read() != "".join("line %d\n" % i * 50 for i in range(n)): sys.exit("the log is not what was synced")
    print(n, "lines synced, the longest took %.1f s" % worst)

# Names: each call is carried out once, and says so.
def names():
    d = where + "/names"
    os.mkdir(d)
    n = 0
    while going():
        a, b, c, e = (os.path.join(d, "%s%d" % (x, n)) for x in "abce")
        os.mkdir(a)
        os.close(os.open(b, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.symlink("x", e)
        os.rename(b, c)
        os.link(c, b)
        for x in (b, c, e): os.remove(x)
        os.rmdir(a)
        n += 1
    if os.listdir(d): sys.exit("left: %s" % os.listdir(d))
    print(n, "rounds of names")

# A number that both clients increment under a lock. At the end it is the sum of what they have added.
def count():
    f = os.open(where + "/count", os.O_RDWR)
    n = worst = 0
    while going():
        began = time.time()
        fcntl.lockf(f, fcntl.LOCK_EX)
        worst = max(worst, time.time() - began)
        was = int(os.pread(f, 20, 0) or 0)
        os.pwrite(f, b"%020d" % (was + 1), 0)
        os.fsync(f)
        fcntl.lockf(f, fcntl.LOCK_UN)
        n += 1
    open("/tmp/counted-" + sys.argv[3], "w").write(str(n))
    print(n, "times locked, the longest wait took %.1f s" % worst)

globals()[what]()
PY
hold='import fcntl, os, time
f = open("'$A'/held", "r+")
fcntl.lockf(f, fcntl.LOCK_EX)
open("/tmp/held", "w")
while not os.path.exists("/tmp/release"): time.sleep(0.1)'
free='import fcntl
fcntl.lockf(open("'$B'/held", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)'

touch $A/count $A/held
python3 -c "$hold" & holder=$!
declare -A job
begin() { # begin JOB ARGS: a job of client 1
  python3 /tmp/work.py "$@" >/tmp/out-$1-$3 2>&1 &
  job[$1-$3]=$!
}
begin direct $A 1
begin log $A 1
begin names $A 1
begin count $A 1
on c2 python3 /tmp/work.py count $B 2 >/tmp/out-count-2 2>&1 &
job[count-2]=$!
for _ in $(seq 300); do [ -e /tmp/held ] && break; sleep 0.1; done

# A kill at a random moment; the address moves; when a write has got through, the dead server starts again.
stolen=0 rounds=0
for k in $(seq $KILLS); do
  sleep $((RANDOM % 3)).$((RANDOM % 10))
  dead=$active
  kill -9 $(cat /tmp/pid$dead)
  rm -f /tmp/port$dead
  from=$(date +%s%N)
  address $dead $((3 - dead))
  on c2 timeout 60 touch $B/alive && rounds=$((rounds + 1)) || echo "FAIL round $k: no call got through within 60 s"
  timeout 60 touch $A/alive || echo "FAIL round $k: no call over RDMA got through within 60 s"
  on c2 timeout 60 python3 -c "$free" 2>/dev/null && stolen=$((stolen + 1))
  echo "round $k: on after $((($(date +%s%N) - from) / 1000000)) ms"
  serve $dead
  serving $dead || { tail -3 /tmp/serve$dead.log; echo "FAIL server $dead"; }
done
touch /tmp/stop
for name in "${!job[@]}"; do
  if wait ${job[$name]}; then echo "ok $name: $(cat /tmp/out-$name)"; else fail "$name" "$(tail -3 /tmp/out-$name)"; fi
done
check "$rounds rounds: a lock that is held is held at every server" [ $stolen = 0 ]
touch /tmp/release; wait $holder
check "a lock that was given back can be had" on c2 timeout 60 python3 -c "$free"
want=$(($(cat /tmp/counted-1) + $(cat /tmp/counted-2)))
check "two clients have counted to $want" [ "$(sed s/^0*// $A/count)" = $want ]
check "umount over RDMA" umount $A
check "umount over TCP" on c2 umount $B
clean_log
grep -v '^ ' /tmp/serve1.log | tail -5
finish
