"""A peer of RPCSEC_GSS (RFC 2203) on record-marked TCP, by MIT's GSSAPI: Debian's python3-gssapi.

mit.py call PORT MOUNTPORT EXPORT   writes and reads files there with each service
mit.py answer KEYTAB                prints its port, and returns the arguments of procedure 1 of any program
"""

import os, socket, struct, sys

os.environ["KRB5RCACHENAME"] = "none:"
import gssapi

NONE, INTEGRITY, PRIVACY = 1, 2, 3
DATA, INIT, CONTINUE, DESTROY = range(4)


def words(*w):
    return struct.pack(">%dI" % len(w), *w)


def opaque(b):
    return words(len(b)) + b + bytes(-len(b) % 4)


class Decoder:
    def __init__(self, b):
        self.b, self.at = b, 0

    def word(self):
        self.at += 4
        return struct.unpack_from(">I", self.b, self.at - 4)[0]

    def opaque(self):
        n = self.word()
        v = self.b[self.at : self.at + n]
        assert len(v) == n, "an opaque beyond the message"
        self.at += n + -n % 4
        return v

    def rest(self):
        return self.b[self.at :]


def send(s, msg):
    s.sendall(words(1 << 31 | len(msg)) + msg)


def octets(s, n):
    b = b""
    while len(b) < n:
        more = s.recv(n - len(b))
        if not more:
            raise EOFError
        b += more
    return b


def receive(s):
    msg, last = b"", False
    while not last:
        mark = struct.unpack(">I", octets(s, 4))[0]
        last = mark >> 31
        msg += octets(s, mark & 0x7FFFFFFF)
    return msg


def protect(ctx, service, seq, plain):
    if service == NONE:
        return plain
    body = words(seq) + plain
    if service == INTEGRITY:
        return opaque(body) + opaque(ctx.get_signature(body))
    return opaque(ctx.wrap(body, True).message)


def reveal(ctx, service, seq, body):
    if service == NONE:
        return body
    d = Decoder(body)
    plain = d.opaque()
    if service == INTEGRITY:
        ctx.verify_signature(plain, d.opaque())
    else:
        got = ctx.unwrap(plain)
        assert got.encrypted, "in clear"
        plain = got.message
    assert not d.rest() and Decoder(plain).word() == seq, "octets behind it, or another number"
    return plain[4:]


class Client:
    def __init__(self, port):
        self.s = socket.create_connection(("localhost", port))
        self.xid, self.seq = 100, 0

    def send(self, prog, proc, cred, verf, body):
        """sends a call; verf makes the verifier of its header"""
        self.xid += 1
        header = words(self.xid, 0, 2, prog, 3, proc) + cred
        send(self.s, header + verf(header) + body)
        d = Decoder(receive(self.s))
        assert (d.word(), d.word()) == (self.xid, 1), "no reply to this"
        return d

    def cred(self, proc, service):
        return words(6) + opaque(words(1, proc, self.seq, service) + opaque(self.handle))

    def join(self):
        name = gssapi.Name("nfs@localhost", gssapi.NameType.hostbased_service)
        self.ctx = gssapi.SecurityContext(name=name, usage="initiate", flags=[gssapi.RequirementFlag.mutual_authentication])
        self.handle, token, proc = b"", self.ctx.step(), INIT
        while True:
            d = self.send(100003, 0, self.cred(proc, NONE), lambda _: words(0, 0), opaque(token))
            assert d.word() == 0, "denied"
            flavor, verf, stat = d.word(), d.opaque(), d.word()
            self.handle, major, minor, window, token = d.opaque(), d.word(), d.word(), d.word(), d.opaque()
            assert stat == 0 and major <= 1, (stat, major, minor)
            token = self.ctx.step(token) if token else None
            if major == 0:
                assert self.ctx.complete and flavor == 6
                self.ctx.verify_signature(words(window), verf)
                return
            proc = CONTINUE

    def call(self, proc, service, args, gss_proc=DATA, body=None):
        """returns the plain results, or why there are none"""
        self.seq += 1
        if body is None:
            body = protect(self.ctx, service, self.seq, args)
        mic = lambda header: words(6) + opaque(self.ctx.get_signature(header))
        d = self.send(100003, proc, self.cred(gss_proc, service), mic, body)
        if d.word() != 0:
            return d.word(), d.word()
        flavor, verf = d.word(), d.opaque()
        assert flavor == 6
        self.ctx.verify_signature(words(self.seq), verf)
        stat = d.word()
        if stat != 0:
            return stat
        return reveal(self.ctx, service, self.seq, d.rest()) if gss_proc == DATA else d.rest()


def call(port, mount, export):
    m = Client(mount)
    d = m.send(100005, 1, words(0, 0), lambda _: words(0, 0), opaque(export.encode()))
    assert (d.word(), d.word(), d.opaque(), d.word(), d.word()) == (0, 0, b"", 0, 0), "MNT"
    root = d.opaque()
    print("flavors", [d.word() for _ in range(d.word())])
    c = Client(port)
    c.join()
    for service in NONE, INTEGRITY, PRIVACY:
        for size in 0, 3, 5000, 300000:
            data = os.urandom(size)
            d = Decoder(c.call(8, service, opaque(root) + opaque(b"mit-%d-%d" % (service, size)) + words(0, 0, 0, 0, 0, 0, 0)))
            assert (d.word(), d.word()) == (0, 1), "CREATE"
            file = d.opaque()
            d = Decoder(c.call(7, service, opaque(file) + words(0, 0, size, 2) + opaque(data)))
            assert d.word() == 0, "WRITE"
            d = Decoder(c.call(6, service, opaque(file) + words(0, 0, size + 1)))
            assert (d.word(), d.word()) == (0, 1), "READ"
            d.at += 84
            assert (d.word(), d.word(), d.opaque()) == (size, 1, data), "what was read is not what was written"
    unsealed = opaque(c.ctx.wrap(words(c.seq + 1) + opaque(root), False).message)
    assert c.call(1, PRIVACY, None, body=unsealed) == 4, "a token that is not sealed"
    assert c.call(0, NONE, b"", gss_proc=DESTROY) == b"", "DESTROY"
    assert c.call(1, NONE, opaque(root)) == (1, 13), "a context that is gone"


def answer(keytab):
    creds = gssapi.Credentials(usage="accept", store={"keytab": "FILE:" + keytab})
    contexts = {}
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        s, _ = listener.accept()
        try:
            while True:
                msg = receive(s)
                d = Decoder(msg)
                xid, _, _, _, _, proc, flavor = (d.word() for _ in range(7))
                cred = Decoder(d.opaque())
                header = msg[: d.at]
                _, gss_proc, seq, service, handle = cred.word(), cred.word(), cred.word(), cred.word(), cred.opaque()
                _, verf = d.word(), d.opaque()
                if gss_proc in (INIT, CONTINUE):
                    ctx = contexts.pop(handle, None) or gssapi.SecurityContext(creds=creds, usage="accept")
                    token, handle = ctx.step(d.opaque()), b"handle %d" % len(contexts)
                    contexts[handle] = ctx
                    results = opaque(handle) + words(0 if ctx.complete else 1, 0, 128) + opaque(token or b"")
                    seq = 128
                    print(ctx.initiator_name, flush=True)
                else:
                    ctx = contexts[handle]
                    ctx.verify_signature(header, verf)
                    plain = reveal(ctx, service, seq, d.rest())
                    results = protect(ctx, service, seq, plain)
                send(s, words(xid, 1, 0, 6) + opaque(ctx.get_signature(words(seq))) + words(0) + results)
        except EOFError:
            s.close()


if __name__ == "__main__":
    if sys.argv[1] == "call":
        call(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        answer(sys.argv[2])
