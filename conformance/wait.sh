# wait.sh: functions for the scripts that start servers and wait for them.

# free_ports N: prints N TCP ports of 127.0.0.1, all different, on which nobody listens. They are
# outside the range from which the kernel picks ports for connections, so that no connection takes one
# before it is used. For programs that cannot choose a port themselves and report it.
free_ports() {
  python3 - "$1" <<'PY'
import random, socket, sys
low, high = map(int, open("/proc/sys/net/ipv4/ip_local_port_range").read().split())
ports = [p for p in range(10000, 65536) if not low <= p <= high] or list(range(low, high + 1))
random.shuffle(ports)
held = []
while len(held) < int(sys.argv[1]):
    s = socket.socket()
    try: s.bind(("127.0.0.1", ports.pop()))
    except OSError: continue
    held.append(s)
print(*(s.getsockname()[1] for s in held))
PY
}

# wait_for PID COMMAND...: until COMMAND succeeds; fails when PID has ended, or after five minutes,
# more than any server needs, however busy the machine is.
wait_for() {
  local pid=$1 i
  shift
  for i in $(seq 3000); do
    "$@" && return
    kill -0 "$pid" 2>/dev/null || { "$@"; return; }
    sleep 0.1
  done
  return 1
}

# port_file FILE NAME: the port after the last colon of NAME in a file that nfsdemo --port-file wrote.
port_file() { sed -n "s/^$2=.*://p" "$1"; }

# said_port FILE: the port in the line "... on ADDRESS:PORT" with which a server begins; fails until
# it has said so.
said_port() { sed -n 's/.* on .*:\([0-9][0-9]*\)$/\1/p;q' "$1" 2>/dev/null | grep .; }
