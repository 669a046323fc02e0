# Guest script: the column NAME of the matrix, in /mnt/share/matrix; ROLE is server (knfsd) or client (mount).
# /mnt/share/done says that all cases have been played.
export PATH=/mnt/share:$PATH
siw_up || exit 1
ip=10.0.2.15
play() { conformance matrix --resume --skip "${SKIP:-^load/}" ${ONLY:+--only "$ONLY"} --about "$NAME=$ABOUT" "$@" /mnt/share/matrix; }
modprobe -a sunrpc rpcrdma
if [ "$ROLE" = server ]; then
  nfsd_up /export || exit 1
  play --server "$NAME=$ip:20049" && : >/mnt/share/done
else
  modprobe nfsv3
  insmod /mnt/share/inet_diag.ko && insmod /mnt/share/tcp_diag.ko || exit 1
  head -c 30001 /dev/urandom >/export/f
  chmod 755 /export
  nfsdemo serve --export /export --listen $ip:23001 --mount-listen $ip:23002 --squash none --port-file /tmp/ports --log error >/dev/null &
  until [ -e /tmp/ports ]; do sleep 0.2; done
  cat >/tmp/client <<'C'
#!/bin/bash
# Reads a file through a mount; whatever the kernel is left with is unmounted.
mount -t nfs -o vers=3,rdma,port=$STAG_PORT,mountport=23002,mountproto=tcp,nolock,soft,timeo=20,retrans=1,retry=0 $STAG_HOST:/export /mnt/nfs &&
  cat /mnt/nfs/f >/dev/null
rc=$?
umount -f -l /mnt/nfs 2>/dev/null
! dmesg | grep -qE 'BUG:|Oops' || kill -SEGV $$
exit $rc
C
  chmod +x /tmp/client
  play --behind $ip:23001 --client "$NAME=/tmp/client" && : >/mnt/share/done
fi
dmesg | grep -E -A30 'BUG|WARNING|Oops' | cut -c1-160 >>/mnt/share/dmesg
