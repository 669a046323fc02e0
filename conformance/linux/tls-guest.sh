# Guest script of tls.sh: tlshd, and mounts with xprtsec=tls and mtls.
#   PORT, MOUNTPORT, EXPORT  where the server is, and the directory of its exports
S=/mnt/share
M=/mnt/nfs
mkdir -p $M
echo "10.0.2.2 fileserver" >>/etc/hosts
modprobe -a sunrpc nfsv3 gcm ccm ghash-generic aesni-intel 2>/dev/null
insmod $S/mods/tls.ko 2>/dev/null
[ -d /sys/module/tls ] || { echo "FAIL tls.ko"; exit 1; }
tpid=
tlshd() { # tlshd NAME [LINE...]: starts it anew, with these lines of its configuration
  [ -z "$tpid" ] || kill $tpid
  local log=/tmp/tlshd.$1 lib=$S/trixie/usr/lib/x86_64-linux-gnu
  shift
  printf '%s\n' '[debug]' loglevel=3 '[authenticate.client]' "$@" >/etc/tlshd.conf
  $lib/ld-linux-x86-64.so.2 --library-path $lib $S/trixie/usr/sbin/tlshd -s -c /etc/tlshd.conf >$log 2>&1 &
  tpid=$!
  for _ in $(seq 120); do grep -q "PSK SHA384" $log && return; sleep 0.5; done
  cat $log
  return 1
}
take() { # take EXPORT SEC
  mount -t nfs -o vers=3,proto=tcp,xprtsec=$2,port=$PORT,mountport=$MOUNTPORT,mountproto=tcp,nolock,soft,timeo=100,retry=0 fileserver:$EXPORT/$1 $M
}
reads() { take "$@" && [ "$(cat $M/a-name-on-the-wire)" = "hello $1" ] && umount $M; }
refused() { ! take "$@" || { ! ls $M && umount $M; }; }

tlshd tls "x509.truststore=$S/ca.pem" || { echo "FAIL tlshd"; exit 1; }
check "xprtsec=tls mounts, and reads" reads tls tls
check "an export that takes both, with tls" reads both tls
wrote() {
  take tls tls && head -c 3000000 /dev/urandom >$S/random && cp $S/random $M/random && sync && echo 3 >/proc/sys/vm/drop_caches &&
    cmp $S/random $M/random && umount $M
}
check "3 MB are written and read back" wrote
check "in clear, an export with xprtsec=tls is refused" refused tls none
check "without a certificate, one for a certificate is refused" refused mtls tls
tlshd mtls "x509.truststore=$S/ca.pem" "x509.certificate=$S/client.pem" "x509.private_key=$S/client.key" || { echo "FAIL tlshd"; exit 1; }
check "xprtsec=mtls mounts what is exported to its certificate" reads mtls mtls
check "an export that takes both, with mtls" reads both mtls
tail -4 /tmp/tlshd.mtls
finish
