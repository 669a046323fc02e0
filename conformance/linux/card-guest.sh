# Guest script of card.sh, for all guests. A second network card joins them: N is 10.9.9.N and fd09::N.
#   ROLE  server: does what the client, or the host, asks by a file in the directory that they share; or client, second
#   N     1 for the server, 2 and 3
#   DEV   rxe (soft RoCE) or siw (soft iWARP)
S=/tmp/share
cp -r /mnt/share $S # programs are read from 9p again at every start
X=/mnt/a
M=/mnt/nfs
A=10.9.9.1
E=/export/e
export PATH=$PATH:$S GIT_EXEC_PATH=$S
mkdir -p $X && mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none both $X
[ $ROLE = server ] && peer=10.9.9.2 || peer=$A
ip link set eth1 up && ip addr add 10.9.9.$N/24 dev eth1 && ip addr add fd09::$N/64 dev eth1 nodad
modprobe -a ib_core ib_uverbs iw_cm rdma_cm rdma_ucm libcrc32c
insmod $S/mods/udp_tunnel.ko 2>/dev/null # rxe needs it, and it is not in the image
modprobe -a siw rdma_rxe
device_up() { rdma link add card0 type $DEV netdev eth1; }
device_up || { fail "no device"; finish; }
modprobe -a sunrpc rpcrdma nfsv3 nfsv4
until ping -c1 -W2 -q $peer >/dev/null 2>&1; do [ $((tries += 1)) -lt 100 ] || { fail "no other guest"; finish; }; done

# What the server does when it is asked. P is the process of stagcard.
serve() { # serve PROGRAM FLAGS...: up when it has its ports
  rm -f /tmp/ports
  $S/stagcard "$@" --listen $A:${PORT:-20049} --port-file /tmp/ports >>$X/stagcard.log 2>&1 &
  P=$!
  until [ -e /tmp/ports ]; do kill -0 $P && sleep 0.2 || return; done
}
export_() { serve serve --export $E,no_root_squash,insecure,fsid=7 --mount-listen $A:20048 --state /tmp/state --status 127.0.0.1:9999 "$@"; }
locking() { rpcbind && A= export_ --register; } # on all devices
metric() { { printf 'GET /metrics HTTP/1.0\r\n\r\n' >&9 && sed -n "s/^nfsdemo_$1 //p" <&9; } 9<>/dev/tcp/127.0.0.1/9999; }
becomes() { # becomes METRIC N: within 30 s
  local i
  for i in $(seq 30); do [ "$(metric $1)" = $2 ] && return; sleep 1; done
  echo "$1 is $(metric $1), not $2"
  return 1
}
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
removal() { # the device goes: its connections end, what was locked is not any more, and the log says it
  rdma link delete card0 & D=$!
  becomes transport_connections 0 && nothing_locked &&
    grep "the device of a connection was removed" $X/stagcard.log && grep "the device of a listener was removed" $X/stagcard.log
}
return_() { stop && wait $D && device_up && export_; } # librdmacm keeps it until the process ends
says() { # says TEXT COMMAND...: it fails, and says TEXT
  local out
  ! out=$("${@:2}" 2>&1) && grep -q -e "$1" <<<"$out" || { grep -v skipped <<<"$out"; return 1; }
}
if [ $ROLE = server ]; then
  mkdir -p $E && chmod 777 $E && echo hello >$E/f
  until [ -e $X/stop ]; do
    [ -e $X/do ] || { sleep 0.1; continue; }
    mv $X/do $X/doing
    eval "$(<$X/doing)" >$X/said 2>&1 # sourced in a subshell, a last A && B would have B replace this shell (bash 5.2)
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
await() { local i; for i in $(seq 400); do [ -e $X/$1 ] && return; sleep 0.5; done; echo "no $1"; return 1; }
take() { mount_ -t nfs -o vers=3,proto=rdma$V,port=20049,mountport=20048,mountproto=tcp$V,nolock,${1:-soft},timeo=300,retry=0 $A:$E $M; }
drop() { sync && echo 3 >/proc/sys/vm/drop_caches; }
beside() { # beside N OTHER: one of two clients at once; each finds what the other has written
  local i
  head -c 1000001 /dev/urandom >/tmp/b && cp /tmp/b $X/b$1 || return
  for i in 1 2 3; do
    dd if=/tmp/b of=$M/b$1-$i bs=64k oflag=direct && dd if=$M/b$1-$i of=/tmp/b2 bs=64k iflag=direct && cmp /tmp/b /tmp/b2 || return
  done
  : >$X/beside$1 && await beside$2 && cmp $X/b$2 $M/b$2-3
}
if [ $ROLE = second ]; then
  until [ -e $X/go ]; do sleep 1; done
  take && : >$X/second && await both && beside 3 2 && umount $M && : >$X/seen
  until [ -e $X/vanish ]; do sleep 1; done
  take && cat $M/f && : >$X/mounted
  sleep 1000
  finish
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
gits() { # the server's file system has the repository as it was made
  export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
  git init -q --template= $M/r && cd $M/r || return
  for n in 1 2 3; do seq $((n * 1000)) >a$n && cp a$n b && git add . && git commit -q -m $n || return; done
  git gc -q && git clone -q . ../clone && git -C ../clone fsck && there git -C $E/r fsck && [ "$(git -C ../clone log --oneline | wc -l)" = 3 ]
}
two() { # this client and the second one
  : >$X/go && await second && there becomes transport_connections 2 && : >$X/both && beside 2 3 && await seen
}
survives() { # survives DOWN UP: the server goes down under a hard mount's load, comes up again, and nothing is lost
  local dd
  there rm -f $E/k && take hard || return
  head -c 4000000 /dev/urandom >/tmp/k
  dd if=/tmp/k of=$M/k bs=64k oflag=direct 2>/tmp/dd & dd=$!
  there "until [ -s $E/k ]; do sleep 0.05; done; $1" || return
  kill -0 $dd || { echo "too late"; return 1; }
  there $2 || return
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
check "git" gits
check "two clients at once" two
check "umount" umount $M
check "kill -9 of the server under load" survives "stop 9" export_
grep -q " $M " /proc/self/mounts && umount -l $M # of a check that has failed
check "the device of the server is removed under load" survives removal return_
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
unplugged() { # the device goes while stag copies, which says so and ends; then nobody has it open
  local cp
  head -c 20000000 /dev/urandom >/tmp/u
  stagcp /tmp/u "$U/u?mountport=20048" >/tmp/said 2>&1 & cp=$!
  there "until [ -s $E/u.part ]; do sleep 0.05; done" && kill -0 $cp || return
  rdma link delete card0 &
  ! wait $cp && grep "removed\|no RDMA" /tmp/said || { cat /tmp/said; return 1; }
  wait && device_up
}
check "the device of the client is removed under load" unplugged
back() {
  there "STAG_CARD_LISTEN=$A:20060 $S/card.test -test.v -test.run TestDeviceServer >/tmp/back 2>&1 & Q=\$!" &&
    there "until rdma resource show cm_id | grep 20060; do kill -0 \$Q && sleep 0.2 || break; done" || return
  STAG_CARD_DIAL=$A:20060 $S/card.test -test.v -test.run TestDeviceClient && there "wait \$Q && grep -e '--- PASS' /tmp/back"
}
check "backward calls, and connections made anew" back
six() { # over IPv6
  there "stop; A=[fd09::1]; export_" || return
  A=[fd09::1] V=6 take && cp /tmp/c $M/c6 && drop && cmp /tmp/c $M/c6 && grep rdma6 /proc/mounts && umount $M &&
    stagcp --verify "nfs+rdma://[fd09::1]$E/c6?mountport=20048" /tmp/c6 && cmp /tmp/c /tmp/c6
}
check "IPv6" six
there "A=$A; stop; export_"

doctor() { $S/stagcard doctor "$@"; }
check "doctor" doctor "$U?mountport=20048"
check "doctor: nobody listens" says "nobody listens" doctor "nfs+rdma://$A:1$E"
check "doctor: no device" says "rdma link" doctor "nfs+rdma://10.0.2.15$E"
check "doctor: no such host" says "the host is down\|cannot be reached" doctor "nfs+rdma://10.9.9.99$E"
check "ls: nobody listens" says "start the server" $S/stagcard ls "nfs+rdma://$A:1$E"
check "ls: no device" says "rdma link" $S/stagcard ls "nfs+rdma://10.0.2.15$E"
check "ls: no such host" says "check the \(host\|address\)" $S/stagcard ls "nfs+rdma://10.9.9.99$E"
check "serve: no device" says "rdma link" $S/stagcard serve --export /export --listen 10.0.2.15:20049 --state /tmp/none
as_user() { setpriv --reuid 1 --regid 1 --clear-groups $S/stagcard ls "$U?mountport=20048"; }
little() { ulimit -l 64 && as_user; }
check "ls: nothing may be locked" says "ulimit -l" little
chmod 600 /dev/infiniband/*
check "ls: no access" says "access to /dev/infiniband" as_user
echo blacklist rdma_ucm >/etc/modprobe.d/none.conf && rmmod rdma_ucm # or librdmacm has it loaded again
check "ls: no rdma_ucm" says "rdma_ucm" $S/stagcard ls "$U?mountport=20048"
modprobe rdma_ucm
check "the server's own machine is refused" there "says refused $S/stagcard ls '$U?mountport=20048'"
there "stop; export_ --allow 10.9.9.77"
check "ls: not admitted" says "see its log" $S/stagcard ls "$U?mountport=20048"
check "doctor: not admitted" says "serve --allow" doctor "$U?mountport=20048"
check "the server stops" there stop

locks() {
  there locking && rpcbind && rpc.statd --no-notify || return
  mount_ -t nfs -o vers=3,rdma,port=20049,mountport=20048,mountproto=tcp,soft,timeo=300,retry=0 $A:$E $M || return
  exec 7>$M/l && flock 7 && there becomes locks_held 1 && exec 7>&- && there becomes locks_held 0 && umount $M && there stop
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
