# helpers available to every guest script
# siw_up [stock|param k=v ...|mended k=v ...] : load siw and attach it to eth0 (and lo when asked by SIW_LO=1)
siw_up() {
  local kind=stock; case "${1:-}" in stock|param|mended) kind=$1; shift;; esac
  modprobe -a ib_core ib_uverbs iw_cm rdma_cm rdma_ucm libcrc32c
  if [ $kind = stock ]; then modprobe siw || insmod /lib/modules/$(uname -r)/updates/siw.ko
  else insmod /stag/siw-$kind/siw.ko "$@"; fi
  local d; grep -q stag.slirp /proc/cmdline && ping -c1 -W2 -q 10.0.2.2 >/dev/null 2>&1   # prime ARP
  for d in ${SIW_DEVS:-$(ls /sys/class/net | grep eth)}; do rdma link add siw_$d type siw netdev $d || return 1; done
}
siw_down() { local d; for d in $(ls /sys/class/infiniband); do rdma link delete $d; done; rmmod siw; }
# nfsd_up [dir] : kernel NFS server on TCP 2049 and RDMA 20049, exporting $1 (default /export)
nfsd_up() {
  local dir=${1:-/export}
  modprobe lockd nlm_grace_period=1; modprobe -a sunrpc rpcrdma nfsd
  mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
  mountpoint -q /var/lib/nfs/rpc_pipefs || { mkdir -p /var/lib/nfs/rpc_pipefs; mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs; }
  mkdir -p /var/lib/nfs/v4recovery /run/rpcbind; : > /var/lib/nfs/etab; : > /var/lib/nfs/rmtab
  pidof rpcbind >/dev/null || rpcbind -w 2>/dev/null || rpcbind
  echo "$dir *(rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0)" > /etc/exports
  exportfs -ra
  echo "${NFSD_GRACE:-10}" > /proc/fs/nfsd/nfsv4gracetime 2>/dev/null
  echo "${NFSD_GRACE:-10}" > /proc/fs/nfsd/nfsv4leasetime 2>/dev/null
  pidof rpc.mountd >/dev/null || rpc.mountd
  rpc.nfsd ${NFSD_THREADS:-4}
  echo Y > /proc/fs/nfsd/v4_end_grace 2>/dev/null   # no reclaim wait: nothing to reclaim
  echo rdma 20049 > /proc/fs/nfsd/portlist
  cat /proc/fs/nfsd/portlist
}
nfsd_down() { rpc.nfsd 0; }
# cap FILE [filter] / capstop : tcpdump to the share, full packets, any interface
cap() { local f=$1 i=${CAPIF:-lo}; shift; tcpdump -i $i -s 0 -B 16384 -U -Z root -w "$f" "${@:-tcp}" 2>/tmp/tcpdump.log & CAPPID=$!
  for _ in $(seq 100); do grep -q listening /tmp/tcpdump.log && break; sleep 0.1; done; sleep 0.3; }
capstop() { sleep ${1:-1}; kill -INT $CAPPID; wait $CAPPID 2>/dev/null; grep -E 'captured|dropped' /tmp/tcpdump.log | tr '\n' ' '; echo; }
