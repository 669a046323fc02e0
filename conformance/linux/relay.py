#!/usr/bin/env python3
"""A TCP relay that cuts connections.

usage: relay.py TO-PORT CUTS OCTETS FILE

Forwards a port of 127.0.0.1, which it prints, to 127.0.0.1:TO-PORT. Resets all connections CUTS times,
each time after a random number of octets up to OCTETS has passed, wherever in a frame
that is; then leaves them alone. Writes the number of cuts so far to FILE.
"""
import random
import selectors
import socket
import struct
import sys

to, cuts, octets, note = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
rnd = random.Random(6)
sel = selectors.DefaultSelector()
server = socket.create_server(("127.0.0.1", 0))
print("relay on 127.0.0.1:%d" % server.getsockname()[1], flush=True)
sel.register(server, selectors.EVENT_READ)
peer = {}
done, left = 0, rnd.randint(1, octets)


def drop(conn, reset):
    for c in (conn, peer.pop(conn, None)):
        if c is None or c.fileno() < 0:
            continue
        peer.pop(c, None)
        sel.unregister(c)
        if reset:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()


while True:
    for key, _ in sel.select():
        conn = key.fileobj
        if conn is server:
            a, _ = server.accept()
            try:
                b = socket.create_connection(("127.0.0.1", to), timeout=5)
            except OSError:
                a.close()
                continue
            b.settimeout(None)
            for x, y in ((a, b), (b, a)):
                x.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer[x] = y
                sel.register(x, selectors.EVENT_READ)
            continue
        if conn not in peer:
            continue  # dropped meanwhile
        try:
            data = conn.recv(min(65536, left) if done < cuts else 65536)
            peer[conn].sendall(data)
        except OSError:
            data = b""
        if not data:
            drop(conn, False)
            continue
        left -= len(data)
        if left == 0 and done < cuts:
            done, left = done + 1, rnd.randint(1, octets)
            for c in list(peer):
                drop(c, True)
            with open(note, "w") as f:
                print(done, file=f)
