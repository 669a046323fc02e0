#!/bin/sh
# matrix-proxy.sh DIR: reads DIR/f over TCP through our proxy, which is the client of the server at $STAG_ADDRESS.
ports=$(mktemp)
rm "$ports"
nfsdemo proxy --to "nfs+rdma://$STAG_ADDRESS" --listen 127.0.0.1:0 --port-file "$ports" --log error &
proxy=$!
trap 'kill $proxy; rm -f "$ports"' EXIT
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  [ -s "$ports" ] && break
  sleep 0.1
done
at=$(sed -n 's/^[A-Z_]*=\(127[^ ]*\)$/\1/p' "$ports" | head -1)
nfsdemo cat --call-timeout 3s "nfs://$at$1/f?mountport=${at##*:}" >/dev/null
