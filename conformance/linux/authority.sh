# Guest script: what callers may do through mounts of the kernel's client, over RDMA and TCP, compared with
# processes beside the server. All of it is in the guest: nfsdemo, the file systems and the client.
#   ONLY_ROOM  if not empty, only quotas and reserved blocks
#   FS   the kinds of file systems, besides tmpfs, of /dev/vdb and so on; the last one is ext4 with quotas
K=/mnt/share
modprobe -a libcrc32c raid6_pq xor zstd_compress blake2b_generic xxhash_generic sha256_generic ext4 sunrpc rpcrdma nfsv3
for m in inet_diag tcp_diag quota_tree quota_v2 xfs btrfs; do insmod $K/$m.ko || fail "$m"; done
siw_up || { echo "FAIL siw"; exit 1; }
me=10.0.2.15 disk=b exports=()
add() { # add NAME OPTIONS: exports /e/NAME
  exports+=(--export "/e/$1,insecure${2:+,$2}")
}
mkdir -p /e/tmpfs /e/ro
mount -t tmpfs -o mode=755 tmpfs /e/tmpfs
add tmpfs
for kind in $FS; do
  quota=
  [ $kind = xfs ] && quota=usrquota xfs=/dev/vd$disk
  mkdir -p /e/$kind && mount -t $kind ${quota:+-o $quota} /dev/vd$disk /e/$kind || fail "$kind"
  add $kind
  disk=$(tr b-y c-z <<<$disk)
done
mkdir -p /e/room && mount -t ext4 -o usrquota /dev/vd$disk /e/room || fail "ext4 with quotas"
add room no_root_squash
mount -t tmpfs -o mode=755 tmpfs /e/ro
add ro ro

$K/nfsdemo serve "${exports[@]}" --listen 0.0.0.0:20049 --tcp 0.0.0.0:2049 --mount-listen 0.0.0.0:20048 --state /tmp/state --port-file /tmp/ports >/tmp/serve.log 2>&1 &
pid=$!
for _ in $(seq 600); do [ -e /tmp/ports ] && break; sleep 0.1; done
sed -n 's/.*\(mode=.*authority=.*\)/\1/p' /tmp/serve.log

pairs() { # pairs DIR NAME: DIR=MOUNT for both transports
  echo "$1=/m/rdma-$2,$1=/m/tcp-$2"
}
all="tmpfs $FS"
for kind in $all room ro; do
  for proto in rdma tcp; do
    port=20049
    [ $proto = rdma ] || port=2049
    mkdir -p /m/$proto-$kind
    mount_ -t nfs -o "vers=3,$proto,port=$port,mountport=20048,mountproto=tcp,nolock,soft,timeo=600,retrans=2,retry=0" $me:/e/$kind /m/$proto-$kind || fail "mount $kind over $proto"
  done
done
grep -c ' /m/.* nfs ' /proc/mounts
mounts=/e/tmpfs=/m/tcp-tmpfs # the transport changes little, and software emulation is slow
for kind in $all; do mounts=$mounts,/e/$kind=/m/rdma-$kind; done
table() { # table NAME ARGS: a test, with a line for each mount
  /tmp/server.test -test.v -test.timeout 3h -test.run "^$1\$" "${@:2}" >$K/log 2>&1
  local rc=$?
  grep -E 'comparisons|uid [0-9]+:' $K/log
  [ $rc = 0 ] && grep -q '^--- PASS' $K/log && return
  grep -v '^=== ' $K/log | head -${LINES_SHOWN:-40}
  return 1
}
cp $K/server.test /tmp/
run() { if table "${@:2}"; then passed=$((passed + 1)) && echo "ok $1"; else fail "$1"; fi; }
[ -n "${ONLY_ROOM-}" ] || run "what callers may do through a mount is what they may do here" TestAuthorityMount -authority.mounts $mounts
run "a read-only export" TestAuthorityMountReadOnly -authority.ro "$(pairs /e/ro ro)"
run "quotas without a reserve" TestAuthorityQuota -authority.quota "$(pairs /e/xfs xfs)" -authority.device "$xfs"
run "quotas and reserved blocks" TestAuthorityRoom -authority.room "$(pairs /e/room room)" -authority.device /dev/vd$disk
kill -INT $pid
wait $pid || fail "serve exits $?"
tail -3 /tmp/serve.log
clean_log 'siw: .*(error|TERMINATE)'
finish
