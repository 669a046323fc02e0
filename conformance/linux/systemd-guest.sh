# Guest script of systemd.sh: a new administrator, who follows the guide, makes mistakes, and removes everything again.
check "Debian has booted" test "$(systemctl is-system-running --wait)" = running
mark
began=$(date +%s)

check "install" guide 'apt install ./dist/nfsdemo_*_amd64.deb'
check "nothing runs yet" sh -c '! systemctl -q is-active nfsdemo nfsdemo.socket && ! systemctl -q is-enabled nfsdemo'
check "a directory" guide 'install -d -o 1000 -g 1000 /srv/data'
configure() { fenced '[[export]]' >$config && fenced NFSDEMO_OPTIONS= >$flags && cat $config $flags >>"$share/transcript"; }
check "the configuration of the guide" configure
check "start" guide 'systemctl enable --now nfsdemo'
check "it is ready when systemctl returns" curl -sf http://127.0.0.1:9049/readyz
check "status" says 'Status: "serving /srv/data"' 'systemctl status nfsdemo'
check "the command of the guide" guide 'systemctl status nfsdemo'
check "doctor at the server" guide 'nfsdemo doctor --server-only fileserver'
check "/healthz, /status" run 'curl -sf http://127.0.0.1:9049/healthz && curl -sf http://127.0.0.1:9049/status.json'
check "/metrics" run "curl -sf http://127.0.0.1:9049/metrics | grep -E '^nfsdemo_(build_info|ready)'"

without_siw() { run 'nfsdemo doctor fileserver' >/tmp/doctor; [ $? = 3 ] && grep -q '^FAILED   siw' /tmp/doctor && grep -q 'sh /usr/share/nfsdemo/build-siw' /tmp/doctor; }
check "doctor without siw: this machine, and how to get it" without_siw
building=$(date +%s)
check "siw" guide 'sh /usr/share/nfsdemo/build-siw'
building=$(($(date +%s) - building))
without_device() { run 'nfsdemo doctor fileserver' >/tmp/doctor; [ $? = 3 ] && grep -q '^FAILED   device' /tmp/doctor; }
check "doctor without a device" without_device
check "the device" guide 'systemctl enable --now siw@eth0'
doctor() { guide 'nfsdemo doctor fileserver' >/tmp/doctor || { cat /tmp/doctor; return 1; }; }
check "doctor at the client" doctor
printed() {
  local line
  line=$(grep -o 'mount -t nfs -o .*' /tmp/doctor) && echo "# $line" | tee -a /tmp/commands >>"$share/transcript" || return
  read -ra words <<<"$line"
  mount_ "${words[@]:1}" && grep ' /mnt nfs .*proto=rdma' /proc/mounts
}
check "the mount that doctor prints" printed
began=$(($(date +%s) - began)) commands=$(wc -l </tmp/commands)
write() { # DIR NAME: 8 MiB through a mount, compared with what the server's disk has
  user sh -c "head -c 8388608 /dev/urandom >/tmp/$2 && cp /tmp/$2 $1/$2" && cmp "/tmp/$2" "/srv/data/$2" || return
  echo 3 >/proc/sys/vm/drop_caches
  user cmp "/tmp/$2" "$1/$2"
}
check "files over RDMA" write /mnt rdma
check "root is nobody" sh -c '! touch /mnt/root 2>/dev/null && [ ! -e /srv/data/root ]'
check "the log: start" journal 'msg=serving exports=/srv/data'
check "the log: a client connects" journal 'msg="transport: client connected" client=192.0.2.5'
check "the log: a mount" journal 'msg="mount granted" client=192.0.2.5'
check "metrics of calls over RDMA" metric 'nfsdemo_nfs_calls_total{.*transport="rdma"'

opened() { user sh -c 'echo open >/mnt/open'; }
check "a file to keep open" opened
exec 5</mnt/open
sed -i 's/--status/--tcp :2049 --status/' $flags
check "other flags" run 'systemctl restart nfsdemo'
check "an old handle after a restart" sh -c '[ "$(cat <&5)" = open ]'
check "a mount over TCP" guide 'mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=20048,mountproto=tcp,nolock fileserver:/srv/data /media'
check "files over TCP" write /media tcp
check "metrics of calls over TCP" metric 'nfsdemo_nfs_calls_total{.*transport="tcp"'

check "exports: who has mounted it, also before the restart" says '192.0.2.5' 'nfsdemo exports'
check "exports: the command of the guide" guide 'nfsdemo exports'
kicked() { run 'nfsdemo exports --kick 192.0.2.5' && user cat /mnt/open; }
check "exports: a client that is kicked comes back" kicked
check "doctor, not as root: nothing has failed" user nfsdemo doctor --server-only fileserver
unexported() { # a disk, which is free at once
  mkdir /srv/disk && mount -t tmpfs -o size=16M disk /srv/disk && printf '\n[[export]]\npath = "/srv/disk"\n' >>$config || return
  systemctl reload nfsdemo && until_ nfsdemo ls nfs+rdma://fileserver/srv/disk || return
  run 'nfsdemo exports --unexport /srv/disk' && until_ umount /srv/disk || return
  sed -i '$d' $config && sed -i '$d' $config && sed -i '$d' $config && rmdir /srv/disk && systemctl reload nfsdemo
}
check "exports: unexport frees a disk" unexported

mark
mkdir /srv/more
printf '\n[[export]]\npath = "/srv/more"\n' >>$config
check "reload" run 'systemctl reload nfsdemo'
check "the log: reloaded" journal 'msg=reloaded exports="/srv/data /srv/more"'
check "the new export" run 'nfsdemo ls nfs+rdma://fileserver/srv/more'
echo 'path = ' >>$config
check "reload, bad TOML" run 'systemctl reload nfsdemo'
check "the log: not reloaded" journal 'msg="not reloaded'
check "status: not reloaded, which line" says "not reloaded: --config $config: line 11" 'systemctl status nfsdemo'
check "what was served is served" user cat /mnt/open
sed -i '$d' $config

stop() { # while a client writes
  user dd if=/dev/urandom of=/mnt/long bs=1M count=24 oflag=direct iflag=fullblock 2>/tmp/dd &
  local writer=$!
  until_ test -s /srv/data/long
  run 'systemctl stop nfsdemo' || return
  [ "$(systemctl show nfsdemo -p Result -p ExecMainStatus --value | tr '\n' ' ')" = 'success 0 ' ] || return
  kill -0 $writer || { echo "the writer has ended"; return 1; }
  run 'systemctl start nfsdemo' && wait $writer && [ "$(stat -c %s /srv/data/long)" = 25165824 ] || { cat /tmp/dd; return 1; }
  echo 3 >/proc/sys/vm/drop_caches
  user cmp /mnt/long /srv/data/long
}
mark
check "stop while a client writes, start: the client goes on" stop
check "the log: stopping" journal 'stopping'
killed() {
  local before
  before=$(systemctl show nfsdemo -p MainPID --value)
  systemctl kill -s KILL nfsdemo
  echo 3 >/proc/sys/vm/drop_caches
  user cat /mnt/open && [ "$(systemctl show nfsdemo -p MainPID --value)" != "$before" ]
}
check "killed: systemd starts it again, the mount goes on" killed

check "sockets: disable the service" guide 'systemctl disable --now nfsdemo'
check "sockets: enable them" guide 'systemctl enable --now nfsdemo.socket nfsdemo-mount.socket'
check "sockets: nothing runs yet" sh -c '! systemctl -q is-active nfsdemo'
first() { run 'nfsdemo ls nfs+rdma://fileserver/srv/data' && systemctl -q is-active nfsdemo; }
check "sockets: the first client starts it" first
restarts() { # while somebody connects
  (while [ ! -e /tmp/enough ]; do (exec 3<>/dev/tcp/fileserver/20049) && sleep 0.05 || exit; done) 2>/tmp/refused &
  local clients=$!
  for _ in 1 2 3; do systemctl restart nfsdemo || return; done
  : >/tmp/enough
  wait $clients || { cat /tmp/refused; return 1; }
}
check "sockets: nobody is refused while it restarts" restarts
check "sockets: the mount goes on" user cat /mnt/open
closed() { # by a configuration that is wrong
  systemctl stop nfsdemo && echo nonsense >>$config
  until_ sh -c 'nfsdemo ls nfs+rdma://fileserver/srv/data; systemctl is-failed nfsdemo.socket' || return
  sed -i '$d' $config
  sleep 11
  guide 'systemctl restart nfsdemo.socket nfsdemo-mount.socket' && nfsdemo ls nfs+rdma://fileserver/srv/data
}
check "sockets: closed when the server cannot start, and opened again" closed
check "sockets: stop all" systemctl disable --now nfsdemo.socket nfsdemo-mount.socket nfsdemo

cp $config /tmp/toml
cp $flags /tmp/flags
wrong() { ! run 'systemctl start nfsdemo' && says "$1" 'systemctl status nfsdemo'; }
printf '\n[[export]]\npath = "/srv/none"\n' >>$config
absent() { run 'systemctl start nfsdemo' && until_ says '/srv/none cannot be used: no such directory: make it first' 'systemctl status nfsdemo' && nfsdemo ls nfs+rdma://fileserver/srv/data; }
check "no such directory: status says which, and what to do; the others are served" absent
mkdir /srv/none
check "no such directory: once made, it is served" until_ sh -c 'curl -sf http://127.0.0.1:9049/readyz && nfsdemo ls nfs+rdma://fileserver/srv/none'
systemctl stop nfsdemo
cp /tmp/toml $config
echo 'options = rw' >>$config
check "bad TOML: status says where" wrong "$config: line 11"
check "bad TOML: it is not tried again" sh -c 'sleep 4; systemctl -q is-failed nfsdemo'
cp /tmp/toml $config
nfsdemo serve --memory --export /x --listen :20048 --mount-listen '' >/dev/null 2>&1 &
other=$!
until_ sh -c 'ss -Hltn sport = :20048 | grep .'
check "port in use: status says which, and by which flag" wrong '--mount-listen: transport: listen :20048: bind: address already in use'
kill $other
check "port in use: once free, the server starts by itself" until_ curl -sf http://127.0.0.1:9049/readyz

# answers STATUS LINE ADVICE URL: what doctor says
answers() {
  run "nfsdemo doctor $4" >/tmp/doctor
  [ $? = "$1" ] && grep -qF -- "$2" /tmp/doctor && grep -qF -- "$3" /tmp/doctor || { cat /tmp/doctor; return 1; }
}
check "doctor: nobody listens" answers 1 'FAILED   port       nobody listens on fileserver:20050' 'or name its port' nfs+rdma://fileserver:20050/srv/data
check "doctor: the port of NFS/TCP" answers 1 'fileserver:2049 is NFS over TCP, not RDMA' 'proto=tcp' nfs+rdma://fileserver:2049/srv/data
check "doctor: the port of MOUNT" answers 1 'FAILED   start-up   fileserver:20048 is RPC over TCP, but not NFS' 'usually 20049' nfs+rdma://fileserver:20048/srv/data
check "doctor: the port of the status" answers 1 'is not an iWARP peer' 'usually 20049' nfs+rdma://127.0.0.1:9049/srv/data
check "doctor: no such export" answers 1 'no export /srv/other: the server exports /srv/data, /srv/more' 'name one of the exports' nfs+rdma://fileserver/srv/other
check "doctor: an address that may not connect" answers 1 'refuses the connection' '--allow' 127.0.0.1

exec 5<&-
check "umount" umount /mnt /media
at_start() {
  fenced 'fileserver:/srv/data /mnt nfs' >>/etc/fstab && systemctl stop siw@eth0 && systemctl daemon-reload || return
  systemctl start mnt.mount && systemctl is-active siw@eth0 && grep ' /mnt nfs .*proto=rdma' /proc/mounts && systemctl stop mnt.mount || return
  sed -i '\,/mnt nfs,d' /etc/fstab && systemctl daemon-reload
}
check "a mount of fstab brings the device" at_start
check "the device can be stopped" systemctl stop siw@eth0
left() {
  ! find / -xdev -name '*nfsdemo*' -o -name 'siw@*' -o -path /srv/nfs | grep . || return
  ! systemctl list-unit-files --all | grep -E 'nfsdemo|siw@' || return
  ! systemctl --all --no-legend list-units '*nfsdemo*' | grep .
}
check "purge, with the server running" guide 'apt purge nfsdemo'
check "nothing runs, nothing is left" left
check "what was exported is left" cmp /tmp/rdma /srv/data/rdma
check "no unit has failed" test "$(systemctl --failed --no-legend)" = ''
clean_log
echo "from the package to the mount: $commands commands and 2 files; $began s, of which siw takes $building s"
finish
