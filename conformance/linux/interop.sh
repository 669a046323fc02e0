#!/usr/bin/env bash
# Interop with the Linux kernel, both ways:
#   1. the kernel's NFS/RDMA client mounts `nfsdemo serve`, three times: both with their defaults
#      (no CRC32C), with CRC32C required by the client, and (shorter) peer-to-peer, so that its
#      first FPDU is a ready-to-receive message (RFC 6581 Section 9.2). Then once more
#      through a relay that cuts the connection ten times, and once with a server that is
#      killed and started again six times: the kernel's client survives this and finds what it wrote;
#   2. `nfsdemo ls`, `cp`, `cat`, ... against the kernel's own NFS/RDMA server;
#   3. rdma-core's rping against `conformance rping`, both roles, CRC off and on;
#   4. the kernel's client mounts go-nfs, written for TCP, under transport.Listen, and
#      nfs-ganesha (NFSv4.0 and 4.1) behind `nfsdemo proxy`;
#   5. `nfsdemo doctor` in the guest says what a mount lacks, and the command that it prints mounts;
#   6. two clients in the guest lock files at `nfsdemo serve`: conflict, GRANTED, CANCEL, a restart of either side;
#   7. getfacl and setfacl through mounts; what callers may do through mounts over RDMA and TCP is what processes beside the server may do, on
#      tmpfs, ext4, XFS and btrfs; quotas and reserved blocks.
# Every octet that crosses the guest's network card is captured and decoded.
#
# usage: interop.sh [client|crc|p2p|cut|kill|doctor|locks|acl|authority|server|rping|gonfs|nfs4]... (default: all)
# Prints one line per check and "N passed, N failed"; exit 1 on any failure.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
. "$here/cache.sh"
work=$(mktemp -d)
export STATE_DIRECTORY=$work/state # servers here leave alone what this machine has
cleanup() {
  trap - EXIT INT TERM
  [ -z "${spid:-}" ] || kill $spid 2>/dev/null
  [ -z "${vpid:-}" ] || { : >"$work/s/stop"; wait "$vpid"; } 2>/dev/null
  if [ -n "${KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM
passed=0 failed=0
ok() { passed=$((passed + 1)); echo "ok $1"; }
fail() { failed=$((failed + 1)); echo "FAIL $1${2:+: $2}"; }
check() {
  local name=$1 out
  shift
  if out=$("$@" 2>&1); then ok "$name"; else fail "$name" "$(tail -3 <<<"$out" | tr '\n' ' ')"; fi
}
. "$here/../wait.sh"

"$here/build.sh" >"$work/build.log" 2>&1 || { cat "$work/build.log"; echo "FAIL building the guest"; exit 1; }
(cd "$top" && go build -o "$work/nfsdemo" ./nfsdemo && go build -o "$work/conformance" ./conformance && go test -c -o "$work/conformance.test" ./conformance) || exit 1

# guest_said NAME STATUS: the checks of a guest script, which ended with STATUS.
guest_said() {
  local log=$work/$1.log
  sed -nE "s/^(ok|FAIL) /\\1 $1: /p" "$log"
  passed=$((passed + $(grep -c '^ok ' "$log")))
  failed=$((failed + $(grep -c '^FAIL ' "$log")))
  [ "$2" = 0 ] || { [ "$2" = 1 ] || fail "$1: guest ended with $2"; tail -15 "$log"; }
}

tshark_finds_nothing() { (cd "$top/conformance" && "$work/conformance.test" -test.run '^TestCapture$' -tshark.capture "$1"); }

# judge_capture NAME FILE: our decoder checks every frame and every CRC, and so does
# tshark. The judge finds only the known violations of Linux, and those of NAME.expect if there is one. The kernel has
# checked our octets already.
judge_capture() {
  local more=
  [ ! -e "$here/$1.expect" ] || more=$here/$1.expect
  cat "$here/linux.expect" ${more:+"$more"} >"$work/$1.expect"
  check "$1: our decoder reads every frame and checks every CRC" "$work/conformance" decode --strict --counts "$2"
  check "$1: tshark finds nothing malformed and no bad CRC" tshark_finds_nothing "$2"
  check "$1: the judge finds only what Linux is known for" "$work/conformance" judge --expect "$work/$1.expect" "$2"
}

# serve FLAGS...: nfsdemo serves $export; sets spid, and port and mport, which nfsdemo chose.
serve() {
  rm -f "$work/serve.ports"
  "$work/nfsdemo" serve --squash none --export "$export" --listen 127.0.0.1:0 --mount-listen 127.0.0.1:0 --port-file "$work/serve.ports" "$@" >"$work/serve.log" 2>&1 &
  spid=$!
  wait_for "$spid" [ -e "$work/serve.ports" ] || { fail "nfsdemo serve does not start" "$(tail -3 "$work/serve.log")"; return 1; }
  port=$(port_file "$work/serve.ports" RDMA) mport=$(port_file "$work/serve.ports" MOUNT)
}

# serve_ends NAME: the server is interrupted; it must drain and exit 0.
serve_ends() {
  local rc=0
  kill -INT "$spid"
  wait "$spid" || rc=$?
  spid=
  if [ $rc = 0 ]; then ok "$1: serve drains and exits 0; $(grep -oE '[0-9]+ calls (that had run|answered again).*' "$work/serve.log" | tail -1)"; else fail "$1: serve exits $rc" "$(tail -3 "$work/serve.log")"; fi
}

kernel_client() { # kernel_client NAME SERVE-FLAGS ENV...
  local name=$1 flags=$2 export=$work/export
  shift 2
  rm -rf "$export" && mkdir -p "$export/sub/dir"
  echo hello >"$export/hello"
  head -c 300000 /dev/urandom >"$export/sub/random"
  : >"$export/sub/dir/empty"
  mkdir -p "$work/s" && rm -f "$work/s"/*
  (cd "$export" && find . -type f | sort | xargs sha256sum) >"$work/s/seed.sums"
  serve $flags || return
  "$here/run.sh" -t 900 -d "$work/s" -w "$work/$name.pcap" -e "PORT=$port" -e "MOUNTPORT=$mport" -e "EXPORT=$export" "${@/#/-e}" \
    "$here/client.sh" >"$work/$name.log" 2>&1
  local rc=$?
  guest_said "$name" $rc
  check "$name: what the kernel wrote is on the server's disk" sh -c "cd '$export' && sha256sum -c --quiet '$work/s/copied.sums'"
  serve_ends "$name"
  judge_capture "$name" "$work/$name.pcap"
}

# What nfsdemo doctor says in the guest.
guest_doctor() {
  local rc=0 export=$work/export
  rm -rf "$export" && mkdir -p "$export" "$work/s" && rm -f "$work/s"/*
  (cd "$top" && CGO_ENABLED=0 go build -o "$work/s/nfsdemo" ./nfsdemo) || { fail "doctor: build"; return; }
  serve || return
  "$here/run.sh" -t 300 -d "$work/s" -e "PORT=$port" -e "MOUNTPORT=$mport" "$here/doctor.sh" >"$work/doctor.log" 2>&1 || rc=$?
  guest_said doctor $rc
  check "doctor: what the kernel wrote is on the server's disk" grep -qx x "$export/from-linux"
  serve_ends doctor
}

# Locks of two clients in the guest, and of the server beside them: all of it is in the guest, since the server has to call
# its clients.
guest_locks() {
  local rc=0
  mkdir -p "$work/s" && rm -f "$work/s"/*
  (cd "$top" && CGO_ENABLED=0 go build -o "$work/s/nfsdemo" ./nfsdemo) || { fail "locks: build"; return; }
  cp "$cache"/kx/lib/modules/*/kernel/drivers/net/veth.ko "$work/s/" || { fail "locks: no veth"; return; }
  "$here/run.sh" -t 600 -d "$work/s" "$here/locks.sh" >"$work/locks.log" 2>&1 || rc=$?
  guest_said locks $rc
}

# ACLs through mounts (NFSACL).
guest_acl() {
  local rc=0
  command -v setfacl >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends acl >/dev/null || { fail "acl: no setfacl"; return; }
  mkdir -p "$work/s" && rm -f "$work/s"/*
  (cd "$top" && CGO_ENABLED=0 go build -o "$work/s/nfsdemo" ./nfsdemo) || { fail "acl: build"; return; }
  cp "$(command -v getfacl)" "$(command -v setfacl)" "$(ldd "$(command -v setfacl)" | awk '/libacl/{print $3}')" "$work/s/"
  cp "$cache"/kx/lib/modules/*/kernel/net/ipv4/{inet,tcp}_diag.ko "$work/s/" || { fail "acl: modules"; return; }
  "$here/run.sh" -t 600 -d "$work/s" "$here/acl.sh" >"$work/acl.log" 2>&1 || rc=$?
  guest_said acl $rc
}

# What callers may do through mounts: server, file systems and client are all in the guest.
guest_authority() {
  local rc=0 kind n=0 disks= modules=("$cache"/kx/lib/modules/*/kernel)
  command -v mkfs.xfs >/dev/null && command -v mkfs.btrfs >/dev/null ||
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends xfsprogs btrfs-progs >/dev/null || { fail "authority: no xfsprogs and btrfs-progs"; return; }
  mkdir -p "$work/s" && rm -f "$work/s"/*
  (cd "$top" && CGO_ENABLED=0 go build -o "$work/s/nfsdemo" ./nfsdemo && CGO_ENABLED=0 go test -c -o "$work/s/server.test" ./nfsdemo/server) || { fail "authority: build"; return; }
  cp "$modules"/{fs/{xfs/xfs,btrfs/btrfs,quota/quota_tree,quota/quota_v2},net/ipv4/{inet,tcp}_diag}.ko "$work/s/" || { fail "authority: modules"; return; }
  for kind in ext4 xfs btrfs "ext4 -O quota -E quotatype=usrquota -m 50"; do
    n=$((n + 1))
    truncate -s $([ $n = 4 ] && echo 64M || echo 400M) "$work/disk$n"
    # shellcheck disable=SC2086 # its options
    mkfs.${kind%% *} -q ${kind#"${kind%% *}"} "$work/disk$n" >"$work/mkfs.log" 2>&1 || { fail "authority: mkfs.$kind" "$(tail -1 "$work/mkfs.log")"; return; }
    disks="$disks -drive if=none,id=d$n,file=$work/disk$n,format=raw,cache=unsafe -device virtio-blk-pci,drive=d$n"
  done
  "$here/run.sh" -t 10800 -d "$work/s" -e "FS=ext4 xfs btrfs" -e "ONLY_ROOM=${ONLY_ROOM-}" -X "$disks" "$here/authority.sh" >"$work/authority.log" 2>&1 || rc=$?
  grep -E 'comparisons|uid [0-9]+:' "$work/authority.log" | sed 's/^ */authority: /'
  guest_said authority $rc
}

# The kernel's client through a relay that cuts its connection ten times.
kernel_cut() {
  local rport rpid export=$work/export
  rm -rf "$export" && mkdir -p "$export"
  mkdir -p "$work/s" && rm -f "$work/s"/*
  serve || return
  python3 "$here/relay.py" "$port" 10 3000000 "$work/s/cuts" >"$work/relay.out" &
  rpid=$!
  wait_for "$rpid" said_port "$work/relay.out" >/dev/null || fail "the relay does not start"
  rport=$(said_port "$work/relay.out")
  "$here/run.sh" -t 900 -d "$work/s" -w "$work/cut.pcap" -e "PORT=$rport" -e "MOUNTPORT=$mport" -e "EXPORT=$export" -e CUTS=10 "$here/cut.sh" >"$work/cut.log" 2>&1
  local rc=$?
  kill "$rpid"
  guest_said cut $rc
  check "cut: the relay has cut the connection 10 times" grep -qx 10 "$work/s/cuts"
  survived cut
}

# The kernel's client while the server is killed and started again six times, each time when it has
# answered something and up to 3 MB have passed. That is at random, so only by luck between a change
# and its reply.
kernel_kill() {
  local n export=$work/export capture=$work/kill.pcap
  rm -rf "$export" && mkdir -p "$export"
  mkdir -p "$work/s" && rm -f "$work/s"/*
  serve || return
  "$here/run.sh" -t 900 -d "$work/s" -w "$capture" -e "PORT=$port" -e "MOUNTPORT=$mport" -e "EXPORT=$export" -e CUTS=6 -e FORGETS=6 "$here/cut.sh" >"$work/kill.log" 2>&1 &
  vpid=$!
  for n in 1 2 3 4 5 6; do
    wait_for $vpid in_use $(($(size_of "$capture") + RANDOM * 100)) || break
    { kill -KILL "$spid" && wait "$spid"; } 2>/dev/null
    serve --listen "127.0.0.1:$port" --mount-listen "127.0.0.1:$mport" || break
    echo "$n" >"$work/s/cuts"
  done
  local rc=0
  wait $vpid || rc=$?
  vpid=
  guest_said kill $rc
  check "kill: the server has been killed 6 times" grep -qx 6 "$work/s/cuts"
  survived kill
}
size_of() { stat -c %s "$1" 2>/dev/null || echo 0; }
# in_use SIZE: this life of the server has written a block, and $capture has SIZE octets.
in_use() { [ "$export/blocks" -nt "$work/serve.ports" ] && [ "$(size_of "$capture")" -ge "$1" ]; }

# survived NAME: the checks after a guest that worked while its connections were lost.
survived() {
  check "$1: what the kernel wrote is on the server's disk, and nothing else" sh -c "cd '$export' && sha256sum -c --quiet '$work/s/copied.sums' && test \"\$(ls)\" = blocks"
  serve_ends "$1"
  # Not tshark: the relay cuts TCP segments anywhere, and it loses its place in FPDUs cut so.
  cat "$here/linux.expect" "$here/cut.expect" >"$work/cut.expect"
  check "$1: the judge finds only what Linux is known for, and the cuts" "$work/conformance" judge --expect "$work/cut.expect" "$work/$1.pcap"
}

kernel_server() {
  local port mport tport
  read -r port mport tport < <(free_ports 3)
  mkdir -p "$work/s" && rm -f "$work/s"/*
  "$here/run.sh" -t 900 -d "$work/s" -w "$work/server.pcap" -f "$port:20049" -f "$mport:20048" -f "$tport:2049" "$here/server.sh" >"$work/server.log" 2>&1 &
  vpid=$!
  wait_for $vpid [ -e "$work/s/ready" ] || { fail "knfsd did not start"; tail -5 "$work/server.log"; return; }
  local url q="?mountport=$mport&nfsport=$port" nd=$work/nfsdemo
  url="nfs+rdma://127.0.0.1:$port/export"
  check "knfsd: ls -lR" "$nd" ls -l -R "$url$q"
  check "knfsd: ls of 300 names" sh -c "test \$('$nd' ls '$url/dir$q' | wc -l) = 300"
  check "knfsd: cat" sh -c "'$nd' cat '$url/hello$q' | grep -qx 'hello from knfsd'"
  check "knfsd: cp out" sh -c "'$nd' cp '$url/random$q' '$work/random' && cd '$work' && grep ' ./random' s/knfsd.sums | sha256sum -c --quiet"
  local n
  for n in 0 1 4095 4096 4097 65537 $((8 * 1048576 + 3)); do
    head -c "$n" /dev/urandom >"$work/in-$n"
    check "knfsd: cp $n octets in and out" sh -c "'$nd' cp '$work/in-$n' '$url/in-$n$q' && '$nd' cp '$url/in-$n$q' '$work/out-$n' && cmp '$work/in-$n' '$work/out-$n'"
  done
  check "knfsd: mkdir" "$nd" mkdir "$url/new$q"
  check "knfsd: mv" "$nd" mv "$url/in-1$q" "$url/new/one$q"
  check "knfsd: stat" "$nd" stat "$url/new/one$q"
  check "knfsd: rm -r" "$nd" rm -r "$url/new$q"
  check "knfsd: df" "$nd" df "$url$q"
  check "knfsd: no such file is exit 1, one line" sh -c "! '$nd' cat '$url/none$q' 2>'$work/err' && test \$(wc -l <'$work/err') = 1 && grep -q 'no such file' '$work/err' || { cat '$work/err'; false; }"
  check "knfsd over TCP: cat" sh -c "'$nd' cat 'nfs://127.0.0.1:$tport/export/hello?mountport=$mport' | grep -qx 'hello from knfsd'"
  : >"$work/s/stop"
  wait $vpid
  vpid=
  check "knfsd: what we wrote is on its disk" sh -c "cd '$work' && sed -n 's# ./in-# in-#p' s/knfsd.after | sha256sum -c --quiet"
  judge_capture knfsd "$work/server.pcap"
}

# ours NAME N ARGS...: N servers `conformance ARGS`, each for one client on its own port, which the
# server chose; their output is in $work/NAME-1.out, NAME-2.out, ... Sets ports, and adds to spid.
# On their own ports, because siw binds a local port that the RDMA CM draws at random, and the guest
# cannot use one twice for the same far end within a minute (TIME_WAIT).
ours() {
  local name=$1 n=$2 i out pid
  shift 2
  ports=
  for i in $(seq "$n"); do
    out=$work/$name-$i.out
    "$work/conformance" "$@" --listen 127.0.0.1:0 >"$out" 2>&1 &
    pid=$!
    spid="${spid:-} $pid"
    wait_for $pid said_port "$out" >/dev/null || { fail "$name: our server does not start" "$(cat "$out")"; return 1; }
    ports="$ports $(said_port "$out")"
  done
}

# ours_end NAME: those servers must have ended with their clients, without an error.
ours_end() {
  local pid i
  for pid in $spid; do
    for i in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    [ "$i" -lt 100 ] || { fail "$1: a server of ours has had no client"; kill "$pid"; }
    wait "$pid" || fail "$1: our server exits $?"
  done
  spid=
}

rping_both() {
  local n gport ports sizes="64 100 1024 4096 60000" co=$work/conformance
  read -r gport < <(free_ports 1)
  mkdir -p "$work/s" && rm -f "$work/s"/*
  ours rping-crc 1 rping server --require-crc --conns 1 || return
  local cport=$ports
  ours rping 10 rping server --no-crc --conns 1 || return
  "$here/run.sh" -t 900 -d "$work/s" -w "$work/rping.pcap" -f "$gport:7174" -e "PORTS=$ports" -e "CRCPORT=$cport" -e "SIZES=$sizes" \
    "$here/rping.sh" >"$work/rping.log" 2>&1 &
  vpid=$!
  wait_for $vpid [ -e "$work/s/ready" ]
  local crc flag
  for n in $sizes; do
    for crc in off on; do
      flag=--require-crc
      [ $crc = on ] || flag=--no-crc
      check "rping -s: our client, $n octets, CRC $crc" sh -c "'$co' rping client $flag --size $n --count 3 127.0.0.1:$gport | grep 'CRC $crc: ok'"
    done
  done
  # siw misses many a first Send (docs/decisions.md).
  check "rping -s: our client, 50 connections" sh -c "for i in \$(seq 50); do '$co' rping client 127.0.0.1:$gport >/dev/null || exit; done"
  : >"$work/s/stop"
  local rc=0
  wait $vpid || rc=$?
  vpid=
  guest_said rping $rc
  ours_end rping
  check "rping: our servers, three pings in each connection" sh -c "test \$(cat '$work'/rping-[0-9]*.out | grep -c ': 3 pings, .* ok\$') = 10 || { cat '$work'/rping-[0-9]*.out; false; }"
  check "rping: CRC on where only we ask for it" grep -q '3 pings, MPA revision 2, CRC on: ok' "$work/rping-crc-1.out"
  judge_capture rping "$work/rping.pcap"
}

# behind NAME EXPORT OPTS: the guest's part of gonfs and nfs4.
behind() {
  mkdir -p "$work/s" && rm -f "$work/s"/*
  "$here/run.sh" -t 900 -d "$work/s" -w "$work/$1.pcap" -e "EXPORT=$2" -e "OPTS=$3" "$here/behind.sh" >"$work/$1.log" 2>&1
  local rc=$?
  guest_said "$1" $rc
  judge_capture "$1" "$work/$1.pcap"
}

gonfs_behind() {
  local port mport
  read -r port mport < <(free_ports 2)
  (cd "$top/transport/examples/gonfs" && go build -o "$work/gonfs" .) || { fail "gonfs does not build"; return; }
  "$work/gonfs" -listen "127.0.0.1:$port" -mount-listen "127.0.0.1:$mport" >"$work/gonfs.out" 2>&1 &
  spid=$!
  wait_for "$spid" grep -qs serving "$work/gonfs.out" || fail "gonfs does not start" "$(tail -3 "$work/gonfs.out")"
  behind gonfs / "vers=3,rdma,port=$port,mountport=$mport,mountproto=tcp,nolock,noacl"
  kill "$spid"
  wait "$spid"
  spid=
  check "gonfs: data of READ and WRITE went by chunks" sh -c "sed -n 's/.*, \([0-9]*\) octets by RDMA Read, \([0-9]*\) by RDMA Write/\1 \2/p' '$work/gonfs.out' | { read r w; test \$r -gt 3000000 && test \$w -gt 3000000; }"
}

ganesha_behind() {
  local port nfs mount
  read -r nfs mount < <(free_ports 2)
  . "$here/../ganesha-start.sh"
  mkdir -p "$work/ganesha/export"
  ganesha_start "$work/ganesha" "$nfs" "$mount" || { fail "nfs-ganesha does not start" "$(tail -3 "$work/ganesha/log")"; return; }
  "$work/nfsdemo" proxy --to "nfs://127.0.0.1:$nfs" --listen 127.0.0.1:0 --port-file "$work/proxy.ports" >"$work/proxy.log" 2>&1 &
  spid=$!
  wait_for "$spid" [ -e "$work/proxy.ports" ] || fail "the proxy does not start" "$(tail -3 "$work/proxy.log")"
  port=$(port_file "$work/proxy.ports" RDMA)
  behind nfs4 /export "vers=4.0,rdma,port=$port vers=4.1,rdma,port=$port"
  kill -INT "$spid"
  if wait "$spid"; then ok "nfs4: the proxy exits 0"; else fail "nfs4: the proxy exits $?" "$(tail -3 "$work/proxy.log")"; fi
  spid=
  kill "$gpid" ${rpid:-}
  wait "$gpid" ${rpid:-} 2>/dev/null
}

[ $# -gt 0 ] || set -- client crc p2p cut kill doctor locks acl authority server rping gonfs nfs4
for part; do
  case $part in
  client) kernel_client client "" ;;
  crc) kernel_client crc "" CRC=1 ;;
  p2p) kernel_client p2p "" P2P=1 ;;
  cut) kernel_cut ;;
  kill) kernel_kill ;;
  doctor) guest_doctor ;;
  locks) guest_locks ;;
  acl) guest_acl ;;
  authority) guest_authority ;;
  server) kernel_server ;;
  rping) rping_both ;;
  gonfs) gonfs_behind ;;
  nfs4) ganesha_behind ;;
  *) echo "interop.sh: unknown part $part: client, crc, p2p, cut, kill, doctor, locks, acl, authority, server, rping, gonfs or nfs4" >&2; exit 2 ;;
  esac
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
