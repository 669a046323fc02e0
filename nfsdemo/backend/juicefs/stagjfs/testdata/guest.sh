# Guest script: the kernel's NFS/RDMA client works at a service address behind which servers are killed.
#   PORT, MOUNTPORT  the address
#   KILLS            how often; /mnt/share/kills has the number so far
M=/mnt/nfs
siw_up || { echo "FAIL siw"; exit 1; }
modprobe -a sunrpc rpcrdma nfsv3
mount_ -t nfs -o "vers=3,rdma,port=$PORT,mountport=$MOUNTPORT,mountproto=tcp,nolock,hard,timeo=100,actimeo=1" 10.0.2.2:/ $M ||
  { dmesg | tail -5; echo "FAIL mount"; exit 1; }
touch /mnt/share/mounted

kills='
def kills():
    try: return int(open("/mnt/share/kills").read() or 0)
    except FileNotFoundError: return 0
'

# Blocks say what they are. Each is compared when it is read, at random and at the end, past the cache.
direct() {
  python3 - "$M/direct" "$KILLS" <<PY
import mmap, os, random, struct, sys
$kills
size, blocks, rnd = 65536, 64, random.Random(1)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
buf = mmap.mmap(-1, size)
times = [0] * blocks
def pattern(n): return (struct.pack(">QQ", n, times[n]) * (size // 16))[:size]
def write(n):
    times[n] += 1
    buf[:] = pattern(n)
    if os.pwritev(fd, [buf], n * size) != size: sys.exit("short write")
def read(n):
    if os.preadv(fd, [buf], n * size) != size: sys.exit("short read")
    if buf[:] != pattern(n): sys.exit("block %d is not what was written: %r, want %d times" % (n, buf[:16], times[n]))
for n in range(blocks): write(n)
ops = 0
while kills() < int(sys.argv[2]) or ops < 100:
    write(rnd.randrange(blocks))
    read(rnd.randrange(blocks))
    ops += 1
for n in range(blocks): read(n)
print(ops, "writes and reads")
PY
}

# A log that is synced after each line, through the cache, and read back at the end.
log() {
  python3 - "$M/log" "$KILLS" <<PY
import os, sys, time
$kills
f = open(sys.argv[1], "w")
n = 0
worst = 0
while kills() < int(sys.argv[2]) or n < 100:
    f.write("line %d\n" % n * 50)
    began = time.time()
    f.flush()
    os.fsync(f.fileno())
    worst = max(worst, time.time() - began)
    n += 1
f.close()
open("/proc/sys/vm/drop_caches", "w").write("3")
got = open(sys.argv[1]).read()
if got != "".join("line %d\n" % i * 50 for i in range(n)): sys.exit("the log is not what was synced")
print(n, "lines synced, the longest took %.1f s" % worst)
PY
}

# Names: a call that is repeated at another server may find that it has been carried out. Nothing else may go wrong, and
# nothing may be lost.
names() {
  python3 - "$M/names" "$KILLS" <<PY
import os, sys
$kills
d = sys.argv[1]
os.mkdir(d)
n = repeated = 0
def do(call, done, *args):
    global repeated
    try: call(*args)
    except (FileExistsError, FileNotFoundError) as e:
        if not done(): sys.exit("%s%s: %s" % (call.__name__, args, e))
        repeated += 1
there = os.path.lexists
while kills() < int(sys.argv[2]) or n < 20:
    a, b, c = (os.path.join(d, "%s%d" % (x, n)) for x in "abc")
    do(os.mkdir, lambda: there(a), a)
    os.close(os.open(b, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    do(os.rename, lambda: there(c) and not there(b), b, c)
    do(os.remove, lambda: not there(c), c)
    do(os.rmdir, lambda: not there(a), a)
    n += 1
if os.listdir(d): sys.exit("left: %s" % os.listdir(d))
print(n, "rounds of names;", repeated, "calls were said to have failed and were carried out")
PY
}

direct >/tmp/direct 2>&1 & d=$!
log >/tmp/log 2>&1 & l=$!
names >/tmp/names 2>&1 & n=$!
bad=0
for job in "direct $d" "log $l" "names $n"; do
  set -- $job
  if wait $2; then echo "ok $1: $(cat /tmp/$1)"; else echo "FAIL $1: $(tail -3 /tmp/$1)"; bad=1; fi
done
umount $M && echo "ok umount" || { echo "FAIL umount"; bad=1; }
exit $bad
