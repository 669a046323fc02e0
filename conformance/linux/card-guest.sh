# Guest script of card.sh, for both guests. A second network card joins them: the server is 10.9.9.1, the client 10.9.9.2.
#   ROLE  server: does what the other one, or the host, asks by a file in the directory that they share; or client, vanish
#   DEV   rxe (soft RoCE) or siw (soft iWARP)
S=/mnt/share
X=/mnt/a
M=/mnt/nfs
A=10.9.9.1
E=/export/e
mkdir -p $X && mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none both $X
[ $ROLE = server ] && own=$A peer=10.9.9.2 || own=10.9.9.2 peer=$A
ip addr add $own/24 dev eth1 && ip link set eth1 up
modprobe -a ib_core ib_uverbs iw_cm rdma_cm rdma_ucm libcrc32c
if [ "$DEV" = siw ]; then SIW_DEVS=eth1 siw_up
else # rxe needs a module that is not in the image
  insmod $S/mods/udp_tunnel.ko 2>/dev/null
  modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth1
fi || { fail "no device"; finish; }
modprobe -a sunrpc rpcrdma nfsv3 nfsv4
until ping -c1 -W2 -q $peer >/dev/null 2>&1; do [ $((tries += 1)) -lt 100 ] || { fail "no other guest"; finish; }; done

# What the server does when it is asked. P is the process of stagcard.
serve() { # serve PROGRAM FLAGS...: up when it has its ports
  rm -f /tmp/ports
  $S/stagcard "$@" --listen $A:${PORT:-20049} --port-file /tmp/ports >>$X/stagcard.log 2>&1 &
  P=$!
  until [ -e /tmp/ports ]; do kill -0 $P && sleep 0.2 || return; done
}
export_() { serve serve --export $E,no_root_squash,insecure,fsid=7 --mount-listen $A:20048 --state /tmp/state "$@"; }
locking() { rpcbind && export_ --register --status 127.0.0.1:9999; }
held() { { printf 'GET /metrics HTTP/1.0\r\n\r\n' >&9 && grep "locks_held $1" <&9; } 9<>/dev/tcp/127.0.0.1/9999; } # held N locks
knfsd() { # on port 20049 of the device, 2049 of TCP, mountd on 20048
  pidof rpcbind || rpcbind
  modprobe lockd nlm_grace_period=1; modprobe nfsd && mount -t nfsd nfsd /proc/fs/nfsd || return # mountd looks for it once
  : >/var/lib/nfs/etab
  rpc.mountd -p 20048 && nfsd_up /export && grep rdma /proc/fs/nfsd/portlist
}
knfsd_down() { nfsd_down && kill $(pidof rpc.mountd); }
proxy() { PORT=20050 serve proxy --to "nfs://127.0.0.1:2049/?mountport=20048" --mount-listen $A:20047; }
stop() { kill ${1:+-$1} $P && wait $P; true; }
fds() { ls /proc/$P/fd | wc -l; }
fds_are() { # fds_are N SECONDS: the descriptors come back to N
  local i
  for i in $(seq $2); do [ "$(fds)" -le $1 ] && return; sleep 1; done
  echo "$(fds) descriptors, $1 before"
  return 1
}
threads() { ls /proc/$P/task | wc -l; }
threads_are() { [ "$(threads)" -le $(($1 + 4)) ] || { echo "$(threads) threads, $1 before"; return 1; }; } # Go may want a few more, once
nothing_locked() { grep -q 'VmPin:.* 0 kB' /proc/$P/status && grep -q 'VmLck:.* 0 kB' /proc/$P/status || { grep -E 'VmPin|VmLck' /proc/$P/status; return 1; }; }
if [ $ROLE = server ]; then
  mkdir -p $E && chmod 777 $E && echo hello >$E/f
  : >$X/ready
  until [ -e $X/stop ]; do
    [ -e $X/do ] || { sleep 0.1; continue; }
    mv $X/do $X/doing
    { . $X/doing; } >$X/said 2>&1
    echo $? >$X/done.new && mv $X/done.new $X/done
  done
  clean_log 'siw: .*(error|TERMINATE)'
  finish
fi

there() { # there COMMAND...: has the server do it, and returns its status
  local rc waits=0
  rm -f $X/done
  echo "$*" >$X/do.new && mv $X/do.new $X/do
  until [ -e $X/done ]; do [ $((waits += 1)) -lt 3000 ] && sleep 0.1 || return; done
  read -r rc <$X/done
  cat $X/said
  return $rc
}
take() { mount_ -t nfs -o vers=3,rdma,port=20049,mountport=20048,mountproto=tcp,nolock,${1:-soft},timeo=300,retry=0 $A:$E $M; }
drop() { sync && echo 3 >/proc/sys/vm/drop_caches; }
if [ $ROLE = vanish ]; then
  take && cat $M/f && : >$X/mounted
  sleep 600
fi

check "stagcard serves" there export_
same() { # written, read back, compared; with and without the page cache
  head -c 1500001 /dev/urandom >/tmp/f
  cp /tmp/f $M/w && drop && cmp /tmp/f $M/w && cp /tmp/f $X/w && there cmp $E/w $X/w || return
  dd if=/tmp/f of=$M/d bs=1M oflag=direct && dd if=$M/d of=/tmp/d bs=1M iflag=direct && cmp /tmp/f /tmp/d || return
  for n in 1 4095 4097 16385 65537; do
    head -c $n /dev/urandom >/tmp/n && cp /tmp/n $M/n && drop && cmp /tmp/n $M/n || return
  done
}
names() {
  ln -s "$(printf 'x%.0s' $(seq 3000))" $M/sl && [ "$(readlink $M/sl | wc -c)" = 3001 ] || return
  mkdir $M/many && (cd $M/many && seq -f file-with-a-longish-name-%g 40 | xargs touch) && drop || return
  [ "$(ls $M/many | wc -l)" = 40 ] && [ "$(ls -l $M/many | grep -c longish)" = 40 ] && rm -r $M/many
}
users() { # three at once, each as itself: the threads of the server act as them
  local u pids=
  for u in 1 2 3; do
    setpriv --reuid $u --regid $u --clear-groups sh -c "for i in 1 2 3 4 5; do echo $u >$M/u$u-\$i || exit 1; done; [ \"\$(cat $M/u$u-* | wc -l)\" = 5 ]" & pids="$pids $!"
  done
  for u in $pids; do wait $u || return; done
  [ "$(stat -c %u $M/u1-5 $M/u2-5 $M/u3-5 | tr '\n' ' ')" = "1 2 3 " ]
}
verified() { fio --name=v --directory=$M --rw=randrw --bs=64k --size=1m --direct=1 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --numjobs=2 --ioengine=psync --output=/tmp/fio; }
killed() { # the server dies under a hard mount's load, comes again, and nothing is lost
  local dd
  take hard || return
  head -c 4000000 /dev/urandom >/tmp/k
  dd if=/tmp/k of=$M/k bs=64k oflag=direct 2>/tmp/dd & dd=$!
  there "until [ -s $E/k ]; do sleep 0.05; done; stop 9" || return
  kill -0 $dd || { echo "too late"; return 1; }
  there export_ || return
  wait $dd || { head -1 /tmp/dd; return 1; }
  cp /tmp/k $X/k && there cmp $E/k $X/k && umount $M
}
often() { # no descriptor, no thread and no locked octet is left
  local i
  for i in $(seq $MOUNTS); do take && cat $M/f >/dev/null && umount $M || return; done
  there fds_are $1 30 && there threads_are $2 && there nothing_locked
}
check "v3 mounts over $DEV" take
check "octets written and read back" same
check "a long link and 40 names" names
check "three users at once" users
check "fio --verify" verified
check "umount" umount $M
check "kill -9 of the server under load" killed
grep -q " $M " /proc/self/mounts && umount -l $M # of a check that has failed
n=$(there "sleep 2; fds; threads")
check "$MOUNTS mounts, one after the other" often $n

stagcp() { $S/stagcard cp -q "$@"; }
U="nfs+rdma://$A$E"
ours() {
  head -c 3000001 /dev/urandom >/tmp/c
  stagcp /tmp/c "$U/c?mountport=20048" && cp /tmp/c $X/c && there cmp $E/c $X/c && stagcp --verify "$U/c?mountport=20048" /tmp/c2 && cmp /tmp/c /tmp/c2
}
check "stag's client to stag" ours
nobody() {
  ! out=$(stagcp "nfs+rdma://$A:1$E/c?mountport=20048" /tmp/no 2>&1) && grep -qi refused <<<"$out" || { echo "$out"; return 1; }
}
check "a port where nobody listens" nobody
check "the server stops" there stop

locks() {
  there locking && rpcbind && rpc.statd --no-notify || return
  mount_ -t nfs -o vers=3,rdma,port=20049,mountport=20048,mountproto=tcp,soft,timeo=300,retry=0 $A:$E $M || return
  exec 7>$M/l && flock 7 && there held 1 && exec 7>&- && there held 0 && umount $M && there stop
}
check "locks" locks
check "Linux serves" there knfsd
theirs() {
  head -c 3000001 /dev/urandom >/tmp/c
  stagcp /tmp/c "nfs+rdma://$A/export/c?mountport=20048" && cp /tmp/c $X/c && there cmp /export/c $X/c && stagcp --verify "nfs+rdma://$A/export/c?mountport=20048" /tmp/c2 && cmp /tmp/c /tmp/c2
}
check "stag's client to Linux" theirs
check "the proxy serves" there proxy
through() { # through VERSION PATH OPTIONS
  head -c 1500001 /dev/urandom >/tmp/p
  mount_ -t nfs -o vers=$1,rdma,port=20050,soft,timeo=300,retry=0$3 $A:$2 $M && cp /tmp/p $M/p$1 && drop && cmp /tmp/p $M/p$1 && ls -l $M && rm $M/p$1 && umount $M
}
check "v3 through the proxy" through 3 /export ,mountport=20047,mountproto=tcp,nolock
check "v4.1 through the proxy" through 4.1 /
check "v4.2 through the proxy" through 4.2 /
check "the proxy stops" there stop
check "Linux's server stops" there knfsd_down
clean_log 'siw: .*(error|TERMINATE)'
finish
