# Guest script: the kernel's NFS/RDMA client works on a server on the host while its
# connection is cut, or the server killed and started again.
#   EXPORT, PORT, MOUNTPORT  where the server is; PORT may be that of a relay which cuts
#   CUTS                     how often; /mnt/share/cuts has the number so far
#   FORGETS                  of these, how often the server forgets what it has answered (default 0)
M=/mnt/nfs
siw_up || { echo "FAIL siw"; exit 1; }
modprobe -a sunrpc rpcrdma nfsv3
mount_ -t nfs -o "vers=3,rdma,port=$PORT,mountport=$MOUNTPORT,mountproto=tcp,nolock,hard,timeo=100,actimeo=1" "10.0.2.2:$EXPORT" $M ||
  { dmesg | tail -5; echo "FAIL mount"; exit 1; }

# Blocks are written at random with O_DIRECT and say what they are: their number and how
# often they have been written. Each is compared when it is read, at random and at the end.
verify() {
  python3 - "$1" "$CUTS" <<'PY'
import mmap, os, random, struct, sys
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
def cuts():
    try: return int(open("/mnt/share/cuts").read() or 0)
    except FileNotFoundError: return 0
for n in range(blocks): write(n)
ops = 0
while cuts() < int(sys.argv[2]) or ops < 200:
    write(rnd.randrange(blocks))
    read(rnd.randrange(blocks))
    ops += 1
for n in range(blocks): read(n)
print(ops, "writes and reads")
PY
}

# Names are made, moved and removed; every call must say that it has been carried out, once. One whose reply a server took
# with it when it was killed runs again (as at knfsd), and says that it was done before.
names() {
  python3 - "$1" "$CUTS" "${FORGETS:-0}" <<'PY'
import os, sys
d, forgets = sys.argv[1], int(sys.argv[3])
os.mkdir(d)
def once(call, *args):
    global forgets
    try: call(*args)
    except (FileExistsError, FileNotFoundError):
        if forgets == 0: raise
        forgets -= 1
def cuts():
    try: return int(open("/mnt/share/cuts").read() or 0)
    except FileNotFoundError: return 0
n = 0
while cuts() < int(sys.argv[2]) or n < 20:
    a, b, c, s = (os.path.join(d, "%s%d" % (x, n)) for x in "abcs")
    once(os.mkdir, a)
    os.close(os.open(b, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    once(os.rename, b, c)
    once(os.link, c, b)
    once(os.symlink, "somewhere", s)
    once(os.rename, a, a + "x")
    for f in b, c, s: once(os.remove, f)
    once(os.rmdir, a + "x")
    n += 1
if os.listdir(d): sys.exit("left: %r" % os.listdir(d))
os.rmdir(d)
print(n, "rounds")
PY
}
# From before the first cut until after the last: fio rewrites a file at random
# and compares what it reads back, 64 blocks later, with the checksum it wrote.
job() {
  while fio --name=cut --filename="$1" --size=4m --bs=4k-64k --bs_unaligned=0 --rw=randwrite --direct=1 \
    --ioengine=psync --numjobs=1 --loops=12 --verify=crc32c --verify_backlog=64 --verify_fatal=1 \
    --output-format=terse --terse-version=3; do
    [ "$(cat /mnt/share/cuts)" != "$CUTS" ] || return 0
  done
  return 1
}
check "MKDIR, CREATE, RENAME, LINK, SYMLINK, REMOVE, RMDIR while the connection is cut $CUTS times" names $M/names >/tmp/names.out &
check "fio --verify through all of it" job $M/fio >/tmp/fio.out &
check "O_DIRECT writes and reads, all verified, meanwhile" verify $M/blocks
wait
for out in /tmp/names.out /tmp/fio.out; do
  cat $out
  grep -q '^ok' $out || failed=$((failed + 1))
done
check "rm" rm $M/fio
echo 3 >/proc/sys/vm/drop_caches
(cd $M && sha256sum blocks) >/mnt/share/copied.sums
connects=$(awk '$1 == "xprt:" && $2 == "rdma" {print $5}' /proc/self/mountstats)
check "the kernel has connected $connects times, more than $CUTS" test "$connects" -gt "$CUTS"
check "umount" umount $M
clean_log
finish
