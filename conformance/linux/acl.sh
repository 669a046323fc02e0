# Guest script: getfacl and setfacl through mounts of the kernel's client, over RDMA and TCP, and what the server's file system
# then obeys. All of it is in the guest.
K=/mnt/share
export LD_LIBRARY_PATH=$K PATH=$K:$PATH
modprobe -a sunrpc rpcrdma nfsv3; insmod $K/inet_diag.ko; insmod $K/tcp_diag.ko
siw_up || exit 1
me=10.0.2.15
mkdir -p /e/d /m; mount -t tmpfs -o mode=777 tmpfs /e/d
$K/nfsdemo serve --export /e/d,no_root_squash --listen 0.0.0.0:20049 --tcp 0.0.0.0:2049 --mount-listen 0.0.0.0:20048 --state /tmp/state --port-file /tmp/ports >/tmp/serve.log 2>&1 &
for _ in $(seq 300); do [ -e /tmp/ports ] && break; sleep 0.1; done
for proto in rdma tcp; do
  port=20049; [ $proto = tcp ] && port=2049
  mount_ -t nfs -o vers=3,$proto,port=$port,mountport=20048,mountproto=tcp,nolock $me:/e/d /m || fail "mount $proto"
  f=/m/f-$proto
  echo x >$f; chmod 640 $f
  check "$proto: getfacl of a mode" sh -c "getfacl -cnp $f | grep -q '^group::r--'"
  check "$proto: setfacl" setfacl -m u:1234:rw $f
  check "$proto: the same here and there" sh -c "[ \"\$(getfacl -cnp $f)\" = \"\$(getfacl -cnp /e/d/f-$proto)\" ]"
  check "$proto: it is obeyed" setpriv --reuid 1234 --clear-groups sh -c "echo y >>$f"
  check "$proto: and others are not let in" sh -c "! setpriv --reuid 1235 --clear-groups sh -c 'echo y >>$f'"
  mkdir /m/d-$proto
  check "$proto: a default ACL" setfacl -d -m g:77:rwx /m/d-$proto
  echo z >/m/d-$proto/g; mkdir /m/d-$proto/sub
  check "$proto: is inherited" sh -c "getfacl -cnp /e/d/d-$proto/g | grep -q '^group:77:rwx'"
  check "$proto: setfacl -b" setfacl -b $f
  check "$proto: not the owner's" sh -c "! setpriv --reuid 1234 --clear-groups setfacl -m u:1234:rw $f"
  big=$(for i in $(seq 300); do echo -n "u:$((2000+i)):r,"; done)
  check "$proto: 300 entries" setfacl -m ${big%,} $f
  check "$proto: 300 entries read" sh -c "[ \$(getfacl -cnp $f | wc -l) -gt 300 ]"
  umount /m
done
clean_log
finish
