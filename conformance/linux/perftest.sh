# Guest script: perftest, as the client of PORT on the host, then as a server, once per
# test and CRC mode, the Nth on port 18500+N: /mnt/share/ready-N says that it listens.
#   PORTS  where the host's servers are, one for each test without and with CRC32C
#   SIZE, COUNT  octets of a message, and messages
#   TESTS  write_bw read_bw send_lat
crc=/sys/module/siw/parameters/mpa_crc_required
siw_up mended || # CRC on and off: see build_siw
  { echo "FAIL siw"; exit 1; }
flags="-F -R -d siw_eth0 -s $SIZE -n $COUNT"
run() { # run TEST ARGS...: perftest's status alone says little, so its line of results is asked for as well
  local test=$1
  shift
  timeout 120 "ib_$test" $flags "$@" >/tmp/out 2>&1 || { tail -3 /tmp/out; return 1; }
  grep -Eq "^ *$SIZE +$COUNT +[0-9.]+" /tmp/out || { echo "no results: $(tail -3 /tmp/out)"; return 1; }
}
set -- $PORTS
for on in 0 1; do
  echo $on >$crc
  for test in $TESTS; do check "ib_$test, CRC $on" run "$test" -p "$1" 10.0.2.2; shift; done
done
echo 0 >$crc
i=0
for on in 0 1; do
  for test in $TESTS; do
    i=$((i + 1))
    timeout 300 "ib_$test" $flags -p $((18500 + i)) >/tmp/out 2>&1 &
    for _ in $(seq 600); do busybox netstat -ltn | grep -q ":$((18500 + i)) " && break; sleep 0.1; done
    : >"/mnt/share/ready-$i"
    wait $! || fail "ib_$test as server" "$(tail -3 /tmp/out | tr '\n' ' ')"
  done
done
clean_log 'siw: .*(error|TERMINATE)'
finish
