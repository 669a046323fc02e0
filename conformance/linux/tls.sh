#!/usr/bin/env bash
# Linux 6.12 with tlshd mounts `nfsdemo serve` with xprtsec=tls and xprtsec=mtls (RFC 9289), and is refused where it must
# be. The certificates are made by the commands of docs/secure.md. tlshd is Debian 13's, fetched by apt into a folder of
# its own; it runs in the guest by its own loader. The capture of it all has no name of a file in clear.
#
# usage: STAG_LINUX_KERNEL=6.12 tls.sh (Debian, root; about 3 min with the guest built)
# Prints one line per check; exit 1 on any failure.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
export STAG_LINUX_KERNEL=6.12
. "$here/cache.sh"
work=$(mktemp -d)
export STATE_DIRECTORY=$work/state # servers here leave alone what this machine has
chmod 755 "$work"
spid=
trap '[ -z "$spid" ] || kill $spid; rm -rf "$work"' EXIT
"$here/build.sh" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
(cd "$top" && go build -o "$work/nfsdemo" ./nfsdemo && go build -o "$work/conformance" ./conformance)

# tlshd and its libraries
share=$work/s
mkdir -p "$share/mods" "$work"/apt/{lists,cache/archives}/partial
: >"$work/apt/status"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 'Origin: Debian' 'Component: main' | head -1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$work/apt/list"
apt=(apt-get -qq -o Dir::Etc::sourcelist="$work/apt/list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$work/apt/lists"
  -o Dir::Cache="$work/apt/cache" -o Dir::State::status="$work/apt/status" -o APT::Install-Recommends=false
  -o APT::Sandbox::User=root -o Acquire::Languages=none)
"${apt[@]}" update >/dev/null
"${apt[@]}" -d -y install ktls-utils >/dev/null
for deb in "$work"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$share/trixie"; done
cp "$cache"/kx/lib/modules/*/kernel/net/tls/tls.ko "$share/mods/"

# The first block of docs/secure.md makes the certificates.
mkdir "$work/keys"
sed -n '/^## Certificates/,/^## Server/{/^```/,/^```/{/^```/!p}}' "$top/docs/secure.md" >"$work/certificates.sh"
(cd "$work/keys" && . "$work/certificates.sh") >"$work/openssl.log" 2>&1 || { cat "$work/openssl.log"; exit 1; }
cp "$work"/keys/{ca.pem,client.pem,client.key} "$share/"

mkdir -p "$work"/e/{tls,mtls,both}
for e in tls mtls both; do echo "hello $e" >"$work/e/$e/a-name-on-the-wire"; done
"$work/nfsdemo" serve --export "$work/e/tls,no_root_squash,xprtsec=tls" --export "$work/e/mtls,no_root_squash,client=tls:client" \
  --export "$work/e/both,no_root_squash,xprtsec=tls:mtls" --listen "" --tcp 127.0.0.1:0 --mount-listen 127.0.0.1:0 \
  --tls-cert "$work/keys/fileserver.pem" --tls-key "$work/keys/fileserver.key" --tls-client-ca "$work/keys/ca.pem" \
  --port-file "$work/ports" >"$work/serve.log" 2>&1 &
spid=$!
. "$here/../wait.sh"
wait_for "$spid" [ -e "$work/ports" ] || { cat "$work/serve.log"; exit 1; }
rc=0
"$here/run.sh" -t 400 -d "$share" -w "$work/tls.pcap" -e "PORT=$(port_file "$work/ports" TCP)" \
  -e "MOUNTPORT=$(port_file "$work/ports" MOUNT)" -e "EXPORT=$work/e" "$here/tls-guest.sh" || rc=$?
check() { if "${@:2}" >"$work/out" 2>&1; then echo "ok $1"; else echo "FAIL $1: $(tail -3 "$work/out")"; rc=1; fi; }
check "what was written over TLS is on the server's disk" cmp "$share/random" "$work/e/tls/random"
check "the log names the client's certificate" grep -q 'mtls: CN=client' "$work/serve.log"
check "no name is on the wire" sh -c "! grep -qa a-name-on-the-wire '$work/tls.pcap'"
check "the judge says what is encrypted, and finds no violation" sh -c "'$work/conformance' judge '$work/tls.pcap' | grep 'within TLS'"
exit $rc
