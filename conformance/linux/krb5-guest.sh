# Guest script of krb5.sh: mounts with sec=krb5, krb5i and krb5p.
#   EXPORT  the export of the server, which has the usual ports
S=/mnt/share
M=/mnt/nfs
mkdir -p $M /run/rpc_pipefs
echo "10.0.2.2 nfs.test" >>/etc/hosts
cp $S/krb5.conf /etc/krb5.conf
for uid in 0 1 2; do install -m 600 -o $uid $S/krb5cc_$uid /tmp/krb5cc_$uid; done
for m in cts ecb cmac; do insmod $S/mods/$m.ko 2>/dev/null; done
siw_up
modprobe -a sunrpc rpcrdma auth_rpcgss rpcsec_gss_krb5 nfsv3
mount -t rpc_pipefs sunrpc /run/rpc_pipefs
rpc.gssd -f -n -vvv >/tmp/gssd.log 2>&1 &
gpid=$!
head -c 3000000 /dev/urandom >$S/random

take() { # take SEC PROTO
  local where=proto=tcp,port=2049
  [ $2 = tcp ] || where=rdma,port=20049
  mount_ -t nfs -o vers=3,$where,sec=$1,mountport=20048,mountproto=tcp,nolock,soft,timeo=300,retry=0 nfs.test:$EXPORT $M
}
drop() { sync && echo 3 >/proc/sys/vm/drop_caches; }
wrote() { cp $S/random $M/root-$1-$2 && drop && cmp $S/random $M/root-$1-$2; }
as() { setpriv --reuid $1 --regid $1 --clear-groups sh -c "echo $1 >$M/$1-$2-$3 && cat $M/$1-$2-$3"; }
stranger() { ! setpriv --reuid 3 --regid 3 --clear-groups ls $M; }
restart() { touch $S/restart && until [ -e $S/restarted ]; do sleep 0.3; done && drop && cat $M/f && echo again >$M/again; }
for sec in krb5 krb5i krb5p; do
  for proto in tcp rdma; do
    check "$sec over $proto mounts" take $sec $proto
    check "$sec over $proto is that" grep -q "sec=$sec" /proc/self/mounts
    check "$sec over $proto: 3 MB are written and read back" wrote $sec $proto
    check "$sec over $proto: a user with a ticket" as 1 $sec $proto
    check "$sec over $proto: another one" as 2 $sec $proto
    check "$sec over $proto: who has no ticket is refused" stranger
    [ $sec$proto != krb5prdma ] || check "the server restarts under the mount" restart
    umount $M
  done
done
ticket() { # ticket LIFE: a new one for user 2
  echo "bin $1" >$S/want.new && mv $S/want.new $S/want
  until [ -e $S/cc ]; do sleep 0.3; done
  install -m 600 -o 2 $S/cc /tmp/krb5cc_2.new && mv /tmp/krb5cc_2.new /tmp/krb5cc_2 && rm $S/cc
}
touch2() { setpriv --reuid 2 --regid 2 --clear-groups sh -c "date >>$M/2-krb5p-$1"; }
renewed() { # a context that ends is made anew from a ticket that has come meanwhile, under a user who writes
  take krb5p $1 && ticket 60s && touch2 $1 || return
  local at end
  at=$(date +%s) end=
  while [ $(date +%s) -lt $((at + 80)) ]; do
    touch2 $1 || return
    if [ -z "$end" ] && [ $(date +%s) -gt $((at + 10)) ]; then end=new; ticket 1h || return; fi
    sleep 0.5
  done
  umount $M
}
ended() { # then it is refused, and again served with a new one
  take krb5p $1 && ticket 60s && touch2 $1 || return
  local n=0
  while touch2 $1; do [ $((n += 1)) -lt 200 ] && sleep 0.5 || { echo "it does not end"; return 1; }; done
  ls $M >/dev/null || return # root's has not ended
  ticket 1h
  n=0
  until touch2 $1; do [ $((n += 1)) -lt 200 ] && sleep 0.5 || { echo "it is not renewed"; return 1; }; done
  umount $M
}
for proto in tcp rdma; do
  check "krb5p over $proto: a ticket that is renewed in time" renewed $proto
  check "krb5p over $proto: one that ends, and a new one" ended $proto
done
check "sec=sys is refused" sh -c "! { mount -t nfs -o vers=3,proto=tcp,port=2049,sec=sys,mountport=20048,mountproto=tcp,nolock,soft,timeo=100,retry=0 nfs.test:$EXPORT $M && ls $M; }"
machine() { # root has no ticket but that of the machine, whose name is nobody's
  kill $gpid && wait $gpid
  hostname guest.test && echo "127.0.0.1 guest.test" >>/etc/hosts && cp $S/host.keytab /etc/krb5.keytab && rm /tmp/krb5cc_0 || return
  rpc.gssd -f -vvv >>/tmp/gssd.log 2>&1 &
  take krb5p tcp && ls $M/f >/dev/null && touch $M/machine && [ "$(stat -c %u $M/machine)" = 65534 ] && umount $M
}
check "krb5p with the key of the machine" machine
[ $failed = 0 ] || tail -30 /tmp/gssd.log
finish
