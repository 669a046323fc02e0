# Guest script: the kernel's NFS server (knfsd) over iWARP on port 20049, its
# mountd on 20048 and NFS/TCP on 2049; up until the host writes /mnt/share/stop.
siw_up mended || exit 1 # our client asks for CRC: see build_siw
modprobe -a sunrpc rpcrdma nfsd
mount -t nfsd nfsd /proc/fs/nfsd
echo 1048576 >/proc/fs/nfsd/max_block_size
mkdir -p /var/lib/nfs/v4recovery /run/rpcbind
: >/var/lib/nfs/etab
echo "hello from knfsd" >/export/hello
head -c 3000003 /dev/urandom >/export/random
mkdir /export/dir
for i in $(seq 300); do : >/export/dir/file-with-a-longish-name-$i; done
(cd /export && find . -type f | xargs sha256sum) >/mnt/share/knfsd.sums
rpcbind
rpc.mountd -p 20048
nfsd_up /export || exit 1
: >/mnt/share/ready
until [ -e /mnt/share/stop ]; do sleep 1; done
(cd /export && find . -type f | sort | xargs -d '\n' sha256sum) >/mnt/share/knfsd.after
exit 0
