# Guest script: the kernel's NFS/RDMA client against a server on the host.
#   EXPORT, PORT, MOUNTPORT  where the server is
#   CRC=1                    siw requires CRC32C
#   P2P=1                    siw sends an RTR before anything else (RFC 6581); a short run
M=/mnt/nfs

if [ -n "$CRC" ]; then siw_up mended mpa_crc_required=1 # see build_siw
elif [ -n "$P2P" ]; then siw_up param peer_to_peer=1
else siw_up; fi || { echo "FAIL siw"; exit 1; }
modprobe -a sunrpc rpcrdma nfsv3
opts="vers=3,rdma,port=$PORT,mountport=$MOUNTPORT,mountproto=tcp,nolock,soft,timeo=600,retrans=2,retry=0"
do_mount() { mount_ -t nfs -o "$opts,${1:-actimeo=1}" "10.0.2.2:$EXPORT" $M; }
do_mount || { dmesg | tail -5; echo "FAIL mount"; exit 1; }
grep " $M " /proc/mounts

seeded() { # what the host put there is what we read
  (cd $M && find . -type f | sort | xargs -d '\n' sha256sum) >/tmp/seen
  sort /mnt/share/seed.sums >/tmp/want
  sort /tmp/seen | diff /tmp/want - || return
  ls -lR $M >/dev/null
}
check "ls -lR and checksums of the host's files" seeded

roundtrip() { # in, out, compare; through the server, not the page cache
  head -c "$1" /dev/urandom >/tmp/src
  cp /tmp/src "$M/copy-$1" || return
  echo 3 >/proc/sys/vm/drop_caches
  cmp /tmp/src "$M/copy-$1" || return
  [ "$(stat -c %s "$M/copy-$1")" = "$1" ] || { echo size; return 1; }
  (cd $M && sha256sum "copy-$1") >>/mnt/share/copied.sums
}
if [ -n "$P2P" ]; then
  for n in 1 4097 1048579; do check "cp $n octets" roundtrip "$n"; done
  check "umount" umount $M
  check "mount again" do_mount
  check "umount again" umount $M
  clean_log 'siw: .*(error|TERMINATE)'
  finish
fi
for n in 0 1 4095 4096 4097 65537 $((8 * 1048576 + 3)); do check "cp $n octets" roundtrip "$n"; done

direct() { # O_DIRECT write and read back of an odd size
  head -c "$1" /dev/urandom >/tmp/src
  dd if=/tmp/src of="$M/direct-$1" bs="$1" count=1 oflag=direct || return
  dd if="$M/direct-$1" of=/tmp/back bs="$1" count=1 iflag=direct || return
  cmp /tmp/src /tmp/back
}
for n in 1 511 3001 4095 5001 65537 1048573 1048576; do check "O_DIRECT $n octets" direct "$n"; done

names() {
  mkdir $M/d && echo x >$M/d/a && mv $M/d/a $M/d/b && ln $M/d/b $M/hard && [ "$(stat -c %h $M/hard)" = 2 ] || return
  ln -s d/b $M/soft && [ "$(readlink $M/soft)" = d/b ] && [ "$(cat $M/soft)" = x ] || return
  ln -s "$(printf 'x%.0s' $(seq 4000))" $M/long && [ "$(readlink $M/long | wc -c)" = 4001 ] || return
  chmod 640 $M/d/b && [ "$(stat -c %a $M/d/b)" = 640 ] || return
  truncate -s 100000 $M/d/b && [ "$(stat -c %s $M/d/b)" = 100000 ] && truncate -s 1 $M/d/b && [ "$(cat $M/hard)" = x ] || return
  touch -d '2001-02-03 04:05:06' $M/d/b && [ "$(stat -c %Y $M/d/b)" = "$(date -d '2001-02-03 04:05:06' +%s)" ] || return
  mkfifo $M/d/fifo && [ -p $M/d/fifo ] || return
  ! cat $M/none 2>/dev/null && ! mkdir $M/d 2>/dev/null && ! rmdir $M/d 2>/dev/null || return
  n=$(printf 'n%.0s' $(seq 255)) && : >"$M/$n" && rm "$M/$n" || return
  ! : 2>/dev/null >"$M/${n}n" || return
  rm -r $M/d $M/hard $M/soft $M/long && [ ! -e $M/d ]
}
check "mkdir, rename, ln, ln -s, chmod, truncate, touch, mkfifo, rm -r" names
rename_open() { # a handle survives a rename
  exec 5>"$M/open" && mv $M/open $M/opened && echo through >&5 && exec 5>&- && [ "$(cat $M/opened)" = through ] && rm $M/opened
}
check "write through a renamed file" rename_open
append() { for i in 1 2 3 4 5; do echo $i >>$M/app || return; done; [ "$(cat $M/app | wc -l)" = 5 ]; }
check "append" append
many() {
  mkdir $M/many && (cd $M/many && seq -f 'name-%06g' 2000 | xargs touch) || return
  echo 3 >/proc/sys/vm/drop_caches
  [ "$(ls $M/many | sort -u | wc -l)" = 2000 ] && [ "$(ls -l $M/many | grep -c name-)" = 2000 ] || return
  rm -r $M/many
}
check "2,000 names" many
deep() {
  local p=$M/deep/$(printf 'd/%.0s' $(seq 200))
  mkdir -p "$p" && echo bottom >"$p/f" || return
  echo 3 >/proc/sys/vm/drop_caches
  [ "$(cat "$p/f")" = bottom ] && [ "$(find $M/deep -type d | wc -l)" = 201 ] && rm -r $M/deep
}
check "200-deep path" deep
parallel() { # several writers and readers on one connection
  local i
  for i in 1 2 3 4 5 6 7 8; do (head -c 300000 /dev/urandom >/tmp/p$i && cp /tmp/p$i $M/p$i) & done
  wait
  echo 3 >/proc/sys/vm/drop_caches
  for i in 1 2 3 4 5 6 7 8; do cmp /tmp/p$i $M/p$i & done
  local rc=0 j
  for j in $(jobs -p); do wait "$j" || rc=1; done
  return $rc
}
check "8 files at once" parallel
synced() { echo durable >$M/synced && sync $M/synced && dd if=/dev/zero of=$M/osync bs=4096 count=4 oflag=sync; }
check "fsync and O_SYNC" synced
check "df" df $M
check "umount" umount $M
check "mount again" do_mount ro
readonly_() { ! touch $M/x 2>/dev/null && cat $M/synced >/dev/null && umount $M; }
check "read-only mount" readonly_
clean_log 'siw: .*(error|TERMINATE)'
finish
