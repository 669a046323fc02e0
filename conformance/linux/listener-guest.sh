# Guest script of listener.sh: siw with the patches first, since the one without leaves a list of freed memory behind.
modprobe -a ib_core ib_uverbs iw_cm rdma_cm rdma_ucm libcrc32c
mount -t debugfs debugfs /sys/kernel/debug
ip=10.0.2.15
listens() { ss -4 -ltn | grep -q ":20049 "; }
# leave N: N clients connect and leave, one after the other, until the port is closed.
leave() {
  for n in $(seq "$1"); do
    { : </dev/tcp/$ip/20049; } 2>/dev/null
    listens || return
  done
  sleep 6 # siw waits 5 s for an MPA Request
  listens
}
# endpoints: how many siw has made, and freed, since its messages were switched on.
debug() { clean_log; dmesg -C; echo "module siw $1" >/sys/kernel/debug/dynamic_debug/control; }
endpoints() { echo "$(dmesg | grep -c 'new endpoint') new, $(dmesg | grep -c 'free endpoint') freed"; }
insmod /mnt/share/siw.ko && rdma link add siw0 type siw netdev eth0 && nfsd_up /export >/dev/null || exit 1
check "patched: the port is open after 500 clients that connect and leave" leave 500
debug +p
leave 30
check "patched: the endpoints of 30 are freed" test "$(endpoints)" = "30 new, 30 freed"
debug -p
check "patched: those that leave inside their Request are closed, and the next is served" /mnt/share/conformance probe --only '^mpa/(cut|wrong-key)$' $ip:20049
check "patched: a NULL call is answered" /mnt/share/conformance probe --only '^rpc/procedure$' $ip:20049
check "patched: the port is open after 100 clients at once" sh -c "/mnt/share/conformance probe --clients 100 --only '^load/clients\$' $ip:20049 >/dev/null; ss -4 -ltn | grep -q ':20049 '"
rpc.nfsd 0
sleep 2
rdma link delete siw0
rmmod siw || exit 1
clean_log

modprobe siw && rdma link add siw0 type siw netdev eth0 && nfsd_up /export >/dev/null || exit 1
debug +p
leave 1000 && fail "as it is: the port is open after 1000 clients" || echo "ok as it is: the port is closed after $n clients that connect and leave"
check "as it is: siw has released its listener (work 4, PEER_CLOSE, in state 2, LISTENING)" sh -c "dmesg | grep -q 'siw_cm_work_handler.*work type: 4, state 2'"
finish
