# Guest script: the kernel's NFS/RDMA client against somebody else's server behind ours.
#   EXPORT, OPTS  what to mount, one list of options per word of OPTS
M=/mnt/nfs
siw_up || { echo "FAIL siw"; exit 1; }
modprobe -a sunrpc rpcrdma nfsv3
modprobe nfsv4 2>/dev/null

roundtrip() { # in, out, compare; through the server, not the page cache
  head -c "$1" /dev/urandom >/tmp/src
  cp /tmp/src "$M/copy-$1" || return
  echo 3 >/proc/sys/vm/drop_caches
  cmp /tmp/src "$M/copy-$1"
}
names() {
  mkdir "$M/dir" && mv "$M/copy-1" "$M/dir/one" && ln -s "dir/one" "$M/link" || return
  echo 3 >/proc/sys/vm/drop_caches
  [ "$(readlink "$M/link")" = dir/one ] && [ "$(stat -c %s "$M/dir/one")" = 1 ] && ls -lR "$M" >/dev/null
}
for opts in $OPTS; do
  version=${opts%%,*}
  check "$version: mount" mount_ -t nfs -o "$opts,soft,timeo=600,retrans=2,retry=0" "10.0.2.2:$EXPORT" $M
  grep -q " $M .*proto=rdma" /proc/mounts || { fail "$version: not mounted over RDMA"; continue; }
  for n in 0 1 4097 65537 3145731; do check "$version: cp $n octets in and out" roundtrip "$n"; done
  check "$version: mkdir, mv, ln -s, ls -lR" names
  check "$version: rm -r" sh -c "rm -r $M/* && [ -z \"\$(ls -A $M)\" ]"
  check "$version: umount" umount $M
done
finish
