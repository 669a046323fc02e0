# Guest script of systemd.sh: a year of an administrator, compressed. The server is this machine; the clients are network
# namespaces, each with an address, a name, an rpcbind and a status monitor, which mount over TCP.
declare -A keeper
machine() { # machine NAME N: a client with the address 198.51.100.N
  ip netns add "$1" && ip link add "v$2" type veth peer name eth0 netns "$1" && ip link set "v$2" master lan up || return
  ip netns exec "$1" sh -c "ip link set lo up; ip address add 198.51.100.$2/24 dev eth0; ip link set eth0 up"
  ip netns exec "$1" unshare -mu --propagation private sh -c "
    hostname $1; mount -t tmpfs tmpfs /run && mkdir /run/rpcbind /run/lock
    mount -t tmpfs tmpfs /var/lib/nfs && mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak && chown -R statd /var/lib/nfs
    rpcbind; rpc.statd --no-notify; touch /tmp/ready-$1; exec sleep 100000" >/dev/null 2>&1 &
  keeper[$1]=$!
  until_ test -e "/tmp/ready-$1"
}
on() { # on NAME COMMAND...
  local name=$1
  shift
  nsenter -t "${keeper[$name]}" -m -u -n -- "$@"
}
as() { # as USER NAME COMMAND...
  local who=$1 name=$2
  shift 2
  on "$name" runuser -u "$who" -- "$@"
}
disk() { # disk NAME FLAGS...: an image of 64 MB with ext4, which fstab mounts
  local name=$1
  shift
  truncate -s 64M "/var/$name.img" && mkfs.ext4 -q "$@" "/var/$name.img" && mkdir -p "/srv/$name" &&
    echo "/var/$name.img /srv/$name ext4 loop,nofail,noauto 0 0" >>/etc/fstab
}
gauge() { curl -sf http://127.0.0.1:9049/metrics | grep -xF -- "$1"; } # as docs/alerts.yaml has it (make alerts)
ready() { curl -sf http://127.0.0.1:9049/readyz; }
not() { ! "$@"; }
# step NAME COMMAND...: check, with its time
step() {
  local from=$SECONDS
  check "$@"
  echo "   $((SECONDS - from)) s"
}

check "Debian has booted" test "$(systemctl is-system-running --wait)" = running
mark
step "install" guide 'apt install ./dist/nfsdemo_*_amd64.deb'
step "what clients have" run 'apt-get install -y -qq nfs-common acl quota'
ip link add lan type bridge && ip address add 198.51.100.1/24 dev lan && ip link set lan up
echo '198.51.100.1 fs
198.51.100.7 ann.example.com ann
198.51.100.8 bob.example.com bob
198.51.100.9 carl.example.com carl' >>/etc/hosts
useradd -u 1001 -m other
for i in $(seq 20); do groupadd "g$i" && usermod -a -G "g$i" user; done
for m in "ann 7" "bob 8" "carl 9" "nobody 10"; do
  machine $m || fail "a client: $m" # two words
done
step "disks" eval 'disk home -O quota -E quotatype=usrquota && disk late && mount -o usrquota /srv/home && chmod 755 /srv/home'
install -d -o user -g user /srv/home/user && install -d -o other -g other /srv/home/other && install -d -g g20 -m 2770 /srv/home/g20

cat >/etc/exports <<'EXPORTS'
# homes: ann writes, the domain reads
/srv/home  ann(rw,sync,no_subtree_check) \
           *.example.com(ro)  198.51.100.9(rw,all_squash,anonuid=1000,anongid=1000)
/srv/late  -rw,mountpoint 198.51.100.0/255.255.255.0  # a disk that comes late
EXPORTS
echo 'NFSDEMO_OPTIONS="--exports /etc/exports --listen :20049 --mount-listen :20048 --tcp :2049 --register --manage-gids --allow 198.51.100.0/24 --status 127.0.0.1:9049"' >$flags
step "start, with an export that has no disk" run 'systemctl enable --now nfsdemo'
step "exports: hosts, wildcard, network, comments, continuation" says '*.example.com' 'nfsdemo exports'
for m in ann bob carl; do
  step "$m mounts" on $m mount -t nfs -o vers=3 fs:/srv/home /mnt
done
step "ann, a host, writes" as user ann sh -c 'echo text >/mnt/user/f && chmod 640 /mnt/user/f'
only_reads() { on bob ls /mnt/user/f && as user bob touch /mnt/user/b 2>&1 | grep 'Read-only'; }
step "bob, of the wildcard, reads" only_reads
anonymous() { on carl touch /mnt/user/c && [ "$(stat -c %u /srv/home/user/c)" = 1000 ]; }
step "carl, an address before the wildcard, is uid 1000" anonymous
refused() { not on nobody mount -t nfs -o vers=3,retry=0 fs:/srv/home /mnt && journal 'msg="mount refused" client=198.51.100.10'; }
step "a client that no export names" refused

acl() {
  not as other ann sh -c 'echo more >>/mnt/user/f' && as user ann setfacl -m u:other:rw /mnt/user/f || return
  getfacl -p /srv/home/user/f | grep 'user:other:rw-' && as user ann getfacl -p /mnt/user/f | grep 'user:other:rw-' || return
  as other ann sh -c 'echo more >>/mnt/user/f' && grep more /srv/home/user/f
}
step "ACL: setfacl on a client, getfacl there and here, obeyed" acl
quota_() {
  run 'setquota -u other 1000 2000 0 0 /srv/home' || return
  not as other ann dd if=/dev/zero of=/mnt/other/big bs=64k count=48 oflag=direct || return
  as other ann quota >/tmp/quota; cat /tmp/quota >>"$share/transcript"
  grep -E '[0-9]+\* +1000 +2000' /tmp/quota
}
step "quota: a client sees his, and gets no more" quota_
groups_() { as user ann touch /mnt/g20/x && not as other ann ls /mnt/g20; }
step "the twentieth group of a user counts" groups_

late() {
  not ready && gauge 'nfsdemo_ready 0' && gauge 'nfsdemo_export_ready{export="/srv/late"} 0' || return
  not on ann mount -t nfs -o vers=3,retry=0 fs:/srv/late /media && says /srv/late 'systemctl status nfsdemo' || return
  run 'mount /srv/late' && chmod 1777 /srv/late && until_ ready && on ann mount -t nfs -o vers=3 fs:/srv/late /media && as user ann touch /media/x && [ -e /srv/late/x ]
}
step "a disk that comes late" late
reload() {
  mkdir -p /srv/more && echo '/srv/more bob(rw,nonsense)' >>/etc/exports && run 'systemctl reload nfsdemo'
  says 'not reloaded' 'systemctl status nfsdemo' && ready || return
  sed -i 's/,nonsense//' /etc/exports && run 'systemctl reload nfsdemo' && until_ on bob mount -t nfs -o vers=3,retry=0 fs:/srv/more /media
}
step "reload, first with a wrong option" reload
unexported() { run 'nfsdemo exports --unexport /srv/late' && until_ umount /srv/late; }
step "unexport frees the disk" unexported
back() { run 'mount /srv/late && systemctl reload nfsdemo' && until_ as user ann ls /media/x; }
step "mounted again and reloaded: the client goes on" back

hold() { # ann holds a lock until /tmp/go
  as user ann flock -x /mnt/user/f sh -c 'touch /tmp/held; while [ ! -e /tmp/go ]; do sleep 0.2; done' >/dev/null 2>&1 &
  until_ test -e /tmp/held
}
step "a lock over rpcbind and a status monitor" hold
step "exports: who holds it" says ann "nfsdemo exports | sed -n '/lock/,\$p'"
taken() { not on carl flock -n -x /mnt/user/f true && run 'nfsdemo exports --free-locks ann' && on carl flock -n -x /mnt/user/f true; }
step "free-locks" taken
touch /tmp/go
kicked() { run 'nfsdemo exports --kick 198.51.100.7' && as user ann cat /mnt/user/f; }
step "kick: a client that an export still admits comes back" kicked

registered() { rpcinfo -p 198.51.100.1 | grep -E '100003 +3 +tcp +2049'; }
step "rpcbind knows the server" registered
forgets() { run 'systemctl stop rpcbind.socket rpcbind' && rm -f /run/rpcbind/*.xdr && run 'systemctl start rpcbind.socket rpcbind' && not registered && until_ registered; }
step "rpcbind has lost its table" forgets
later() {
  systemctl stop rpcbind.socket rpcbind && run 'systemctl restart nfsdemo' && curl -s http://127.0.0.1:9049/status.json | grep -i rpcbind && gauge 'nfsdemo_locks_ready 0' || return
  run 'systemctl start rpcbind.socket rpcbind' && until_ registered
}
step "rpcbind comes after the server" later
step "the clients have gone on" as user ann cat /mnt/user/f

upgrade() { # to a package with a higher version, while ann writes
  dpkg-deb -R dist/nfsdemo_*_amd64.deb /tmp/next && sed -i 's/^Version: .*/&+1/' /tmp/next/DEBIAN/control && dpkg-deb -Znone -b /tmp/next /tmp/next.deb || return
  head -c 20M /dev/urandom >/tmp/load && chmod 644 /tmp/load
  as user ann dd if=/tmp/load of=/mnt/user/load bs=16k oflag=direct 2>/tmp/dd &
  local writer=$! before
  before=$(systemctl show nfsdemo -p MainPID --value)
  until_ test -s /srv/home/user/load
  run 'apt-get install -y /tmp/next.deb' && [ "$(systemctl show nfsdemo -p MainPID --value)" != "$before" ] || return
  kill -0 $writer || echo "the writer ended before the upgrade" >>"$share/transcript"
  wait $writer && cmp /tmp/load /srv/home/user/load && rm /srv/home/user/load
}
step "upgrade while a client writes" upgrade

moved() { # the state, as to another machine
  run 'systemctl stop nfsdemo && tar -C /var/lib -cf /tmp/state.tar nfsdemo && rm -r /var/lib/nfsdemo' || return
  run 'tar -C /var/lib -xf /tmp/state.tar && systemctl start nfsdemo' && echo 3 >/proc/sys/vm/drop_caches && as user ann cat /mnt/user/f
}
step "the state moves: mounts go on" moved
rotated() {
  guide 'rm /var/lib/nfsdemo/handles.key' && guide 'systemctl restart nfsdemo' && echo 3 >/proc/sys/vm/drop_caches || return
  as user ann cat /mnt/user/f 2>&1 | grep 'Stale' || return
  on ann umount -l /mnt && on ann mount -t nfs -o vers=3 fs:/srv/home /mnt && as user ann cat /mnt/user/f
}
step "the key is made anew: mount again" rotated
memory() {
  run 'systemctl set-property nfsdemo MemoryMax=96M && systemctl restart nfsdemo' || return
  for n in 1 2 3 4; do as user ann dd if=/tmp/load "of=/mnt/user/m$n" bs=1M count=10 & done
  wait $(jobs -p | tail -4) && systemctl -q is-active nfsdemo && [ "$(systemctl show nfsdemo -p NRestarts --value)" = 0 ] || return
  for n in 1 2 3 4; do cmp -n 10485760 /tmp/load "/srv/home/user/m$n" || return; done
}
step "a cgroup of 96 MB" memory

step "doctor here, whom no export admits, says so" says 'admit this machine in the server' 'nfsdemo doctor --server-only 198.51.100.1'
for m in ann bob carl; do on $m umount -f -l /mnt; on $m umount -f -l /media 2>/dev/null; done
step "umount the disk that is served" eval 'systemctl stop nfsdemo && umount /srv/home /srv/late'
step "purge" guide 'apt purge nfsdemo'
for k in "${keeper[@]}"; do kill "$k"; done
check "no unit has failed" test "$(systemctl --failed --no-legend)" = ''
clean_log
echo "the year: $SECONDS s"
finish
