#!/usr/bin/env bash
# Linux mounts `nfsdemo serve --keytab` with sec=krb5, krb5i and krb5p, over TCP and over RDMA: three users and root, files
# compared on the server's disk, a restart of the server under a mount, tickets that end under one. The KDC is MIT's, on
# loopback.
#
# usage: krb5.sh (Debian, root; about 5 min with the guest built)
# Prints one line per check; exit 1 on any failure.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
. "$here/cache.sh"
. "$here/../wait.sh"
if [ -z "${KRB5_NETNS:-}" ]; then # rpc.gssd calls ports 2049 of whatever host serves RDMA: here they are nobody else's
  command -v kdb5_util kadmin.local kinit >/dev/null ||
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends krb5-kdc krb5-admin-server krb5-user >/dev/null
  log=$(mktemp)
  "$here/build.sh" >"$log" 2>&1 || { cat "$log"; exit 1; }
  rm "$log"
  KRB5_NETNS=1 exec unshare -n "$0"
fi
ip link set lo up
work=$(mktemp -d)
chmod 755 "$work"
pids=
trap '[ -z "$pids" ] || kill $pids 2>/dev/null; rm -rf "$work"' EXIT
(cd "$top" && go build -o "$work/nfsdemo" ./nfsdemo)

share=$work/s
mkdir -p "$share/mods" "$work/e"
chmod 777 "$work/e"
echo hello >"$work/e/f"
find "$cache"/kx/lib/modules/*/kernel/crypto "(" -name cts.ko -o -name ecb.ko -o -name cmac.ko ")" -exec cp {} "$share/mods/" ";" # 6.12 has one built in

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/kdc.conf" <<X
[kdcdefaults]
 kdc_listen = 127.0.0.1:$port
 kdc_tcp_listen = 127.0.0.1:$port
[realms]
 STAG.TEST = {
  database_name = $work/principal
  key_stash_file = $work/stash
  acl_file = $work/acl
  supported_enctypes = aes256-cts:normal aes128-cts:normal
 }
X
for host in 127.0.0.1 10.0.2.2; do
  cat >"$work/krb5-$host.conf" <<X
[libdefaults]
 udp_preference_limit = 1
 default_realm = STAG.TEST
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 STAG.TEST = {
  kdc = $host:$port
 }
[domain_realm]
 nfs.test = STAG.TEST
X
done
cp "$work/krb5-10.0.2.2.conf" "$share/krb5.conf"
export KRB5_CONFIG=$work/krb5-127.0.0.1.conf KRB5_KDC_PROFILE=$work/kdc.conf
{
  kdb5_util create -s -P master -r STAG.TEST
  for user in root daemon bin; do kadmin.local -r STAG.TEST addprinc -pw secret $user; done
  kadmin.local -r STAG.TEST addprinc -randkey nfs/nfs.test
  kadmin.local -r STAG.TEST ktadd -k "$work/nfs.keytab" nfs/nfs.test
  kadmin.local -r STAG.TEST addprinc -randkey host/guest.test
  kadmin.local -r STAG.TEST ktadd -k "$share/host.keytab" host/guest.test
} >"$work/kdc.log" 2>&1 || { cat "$work/kdc.log"; exit 1; }
krb5kdc -n -r STAG.TEST >>"$work/kdc.log" 2>&1 &
pids=$!
for uid in 0:root 1:daemon 2:bin; do
  until kinit -c "FILE:$share/krb5cc_${uid%:*}" "${uid#*:}" <<<secret >/dev/null 2>&1; do kill -0 "${pids##* }"; sleep 0.2; done
done

serve() {
  rm -f "$work/ports"
  "$work/nfsdemo" serve --export "$work/e,no_root_squash,sec=krb5p:krb5i:krb5" --keytab "$work/nfs.keytab" --state "$work/state" \
    --listen 127.0.0.1:20049 --tcp 127.0.0.1:2049 --mount-listen 127.0.0.1:20048 --port-file "$work/ports" >>"$work/serve.log" 2>&1 &
  spid=$!
  pids="$pids $spid"
  wait_for "$spid" [ -e "$work/ports" ] || { cat "$work/serve.log"; exit 1; }
}
serve
(
  trap 'kill $spid 2>/dev/null' EXIT
  until [ -e "$share/restart" ]; do sleep 0.3; done
  kill "$spid"
  while kill -0 "$spid" 2>/dev/null; do sleep 0.1; done
  serve
  touch "$share/restarted"
  wait
) &
pids="$pids $!"
( # tickets on demand: the guest has no kinit
  while sleep 0.3; do
    [ -e "$share/want" ] || continue
    read -r user life <"$share/want"
    rm "$share/want"
    kinit -l "$life" -c "FILE:$share/cc.new" "$user" <<<secret >/dev/null && mv "$share/cc.new" "$share/cc"
  done
) &
pids="$pids $!"
rc=0
"$here/run.sh" -t 700 -d "$share" -e "EXPORT=$work/e" "$here/krb5-guest.sh" || rc=$?
check() { if "${@:2}" >"$work/out" 2>&1; then echo "ok $1"; else echo "FAIL $1: $(tail -3 "$work/out")"; rc=1; fi; }
for sec in krb5 krb5i krb5p; do
  for proto in tcp rdma; do
    check "$sec over $proto: the server's disk has what was written" cmp "$share/random" "$work/e/root-$sec-$proto"
    check "$sec over $proto: it belongs to who wrote it" test "$(stat -c %u "$work/e/root-$sec-$proto" "$work/e/1-$sec-$proto" "$work/e/2-$sec-$proto" | tr '\n' ' ')" = "0 1 2 "
  done
done
[ $rc = 0 ] || tail -20 "$work/serve.log"
exit $rc
