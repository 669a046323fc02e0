# Guest script: rdma-core's rping, as the client of PORT on the host, then as a server
# on port 7174 from when it writes /mnt/share/ready until the host writes /mnt/share/stop.
#   PORTS    where the host's servers are, one for each ping without and with CRC32C
#   CRCPORT  where one is that wants CRC32C
#   SIZES    octets of the pings
crc=/sys/module/siw/parameters/mpa_crc_required
siw_up mended || # CRC on and off: see build_siw
  { echo "FAIL siw"; exit 1; }
ping_() { # port, size; -V: rping compares every octet
  # rping's status alone says little: it is asked for the line of every ping as well.
  timeout 120 rping -c -a 10.0.2.2 -p "$1" -S "$2" -C 3 -V -v >/tmp/out 2>&1 || { tail -3 /tmp/out; return 1; }
  [ "$(grep -ac '^ping data: rdma-ping-' /tmp/out)" = 3 ] || { echo "not three pings"; return 1; }
}
set -- $PORTS
for n in $SIZES; do check "rping -c -S $n, CRC off" ping_ "$1" "$n"; shift; done
echo 1 >$crc
for n in $SIZES; do check "rping -c -S $n, CRC required by siw" ping_ "$1" "$n"; shift; done
echo 0 >$crc
check "rping -c -S 4096, CRC required by us" ping_ "$CRCPORT" 4096
rping -s -P -a 10.0.2.15 -p 7174 -S 60000 >/tmp/server.log 2>&1 &
for _ in $(seq 600); do rdma resource show cm_id 2>/dev/null | grep -q 'LISTEN.*7174' && break; sleep 0.1; done
: >/mnt/share/ready
until [ -e /mnt/share/stop ]; do sleep 0.2; done
clean_log 'siw: .*(error|TERMINATE)'
finish
