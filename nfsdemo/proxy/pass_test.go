package proxy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// words is octets of XDR.
func words(list ...uint32) (b []byte) {
	for _, v := range list {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

func join(list ...[]byte) []byte { return bytes.Join(list, nil) }

// both starts a proxy for clients on TCP whose server on RDMA is a proxy for a server on TCP.
func both(t *testing.T) (client, inner *proxy.Proxy, front string, back net.Listener) {
	t.Helper()
	back = listen(t)
	middle, outer := listen(t), listen(t)
	inner = &proxy.Proxy{Dial: server(back)}
	client = &proxy.Proxy{Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
		return transport.Dial(ctx, "tcp", middle.Addr().String(), nil)
	}}
	served := make(chan error, 2)
	go func() { served <- inner.Serve(middle) }()
	go func() { served <- client.ServeStream(outer) }()
	t.Cleanup(func() {
		client.Close()
		inner.Close()
		<-served
		<-served
	})
	return client, inner, outer.Addr().String(), back
}

// TestPassesUnchanged: calls reach the server, and replies the client, octet by octet, from TCP to RDMA to TCP: XIDs,
// credentials, verifiers, whatever RPCSEC_GSS protects, and replies of any status. Room for results that a binding names, and
// for no others, is offered as write chunks.
func TestPassesUnchanged(t *testing.T) {
	sys := xdr.Auth{Flavor: xdr.AuthSys, Body: words(1, 0, 1000, 1000, 0)}
	gss := xdr.Auth{Flavor: xdr.RPCSECGSS, Body: join(words(1, 0, 7, 3), xdr.AppendOpaque(nil, []byte("hdl")))} // with privacy
	start := xdr.Auth{Flavor: xdr.RPCSECGSS, Body: words(1, 1, 0, 1, 0)}                                        // RPCSEC_GSS_INIT
	mic := xdr.Auth{Flavor: xdr.RPCSECGSS, Body: octets(28)}
	handle := xdr.AppendOpaque(nil, octets(32))
	data := xdr.AppendOpaque(nil, octets(60_001))
	attrs := join(words(1), octets(84))
	ok := xdr.ReplyHeader{}
	for i, x := range []struct {
		name             string
		cred, verf       xdr.Auth
		prog, vers, proc uint32
		args             []byte
		h                xdr.ReplyHeader
		res              []byte
		chunks           bool // of the results
	}{
		{"GETATTR", sys, xdr.Auth{}, 100003, 3, 1, handle, ok, join(words(0), octets(84)), false},
		{"WRITE", sys, xdr.Auth{}, 100003, 3, 7, join(handle, words(0, 0, 60_001, 2), data), ok, join(words(0, 0), attrs, words(60_001, 2, 1, 2)), false},
		{"READ", sys, xdr.Auth{}, 100003, 3, 6, join(handle, words(0, 0, 65_536)), ok, join(words(0), attrs, words(60_001, 1), data), true},
		{"READ that fails", sys, xdr.Auth{}, 100003, 3, 6, join(handle, words(0, 0, 65_536)), ok, words(70, 0), true},
		{"READDIRPLUS", sys, xdr.Auth{}, 100003, 3, 17, join(handle, words(0, 0, 0, 0, 30_000, 30_000)), ok, octets(30_000), false},
		{
			"WRITE and GETATTR of NFSv4.1", sys,
			xdr.Auth{},
			100003, 4, 1,
			join(words(0, 1, 2, 38), octets(16), words(0, 0, 2), data, words(9, 1, 1<<4)), ok,
			join(words(0, 0, 2, 38, 0, 60_001, 2), octets(8), words(9, 0, 1, 1<<4, 8, 0, 5)), false,
		},
		{
			"READ and READ of NFSv4.2", sys,
			xdr.Auth{},
			100003, 4, 1,
			join(words(0, 2, 2, 25), octets(16), words(0, 0, 65_536, 25), octets(16), words(1, 0, 65_536)), ok,
			join(words(0, 0, 2, 25, 0, 1), data, words(25, 0, 1), data), true,
		},
		{"NLM", sys, xdr.Auth{}, 100021, 4, 2, octets(200), ok, octets(40), false},
		{"an unknown program", xdr.Auth{Flavor: 77, Body: octets(9)}, xdr.Auth{Flavor: 78, Body: octets(400)}, 400200, 1, 1, octets(100_000), ok, octets(200_000), false},
		{"a context", start, xdr.Auth{}, 100003, 3, 0, octets(6000), xdr.ReplyHeader{Verf: mic}, octets(5000), false},
		{"a protected READ", gss, mic, 100003, 3, 6, octets(80), xdr.ReplyHeader{Verf: mic}, octets(70_000), false},
		{"a protected WRITE", gss, mic, 100003, 3, 7, octets(70_000), xdr.ReplyHeader{Verf: mic}, octets(160), false},
		{"AUTH_ERROR", gss, mic, 100003, 3, 1, octets(80), xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: 13}, nil, false},
		{"RPC_MISMATCH", sys, xdr.Auth{}, 100003, 3, 12, handle, xdr.ReplyHeader{Denied: true, Reject: xdr.RPCMismatch, Low: 3, High: 4}, nil, false},
		{"PROG_MISMATCH", sys, xdr.Auth{}, 100003, 9, 1, handle, xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 3, High: 4}, nil, false},
		{"SYSTEM_ERR", sys, xdr.Auth{}, 100003, 3, 1, handle, xdr.ReplyHeader{Accept: xdr.SystemErr, Verf: mic}, nil, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, inner, front, back := both(t)
			c := must(net.Dial("tcp", front))(t)
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			xid := 0xfeed0000 + uint32(i)
			call := append(xdr.AppendCall(nil, &xdr.CallHeader{
				XID: xid, RPCVers: 2, Prog: x.prog, Vers: x.vers, Proc: x.proc, Cred: x.cred, Verf: x.verf,
			}), x.args...)
			must(c.Write(record(call)))(t)
			s := accept(t, back)
			if got := nextRecord(s); !bytes.Equal(got, call) {
				null := xdr.ReplyHeader{XID: binary.BigEndian.Uint32(got)} // the proxy in front asks for the grant
				must(s.Write(record(xdr.AppendReply(nil, &null))))(t)
				if got = nextRecord(s); !bytes.Equal(got, call) {
					t.Fatalf("%d octets reached the server, not %d:\n%x\n%x", len(got), len(call), got[:min(200, len(got))], call[:min(200, len(call))])
				}
			}
			x.h.XID = xid
			reply := append(xdr.AppendReply(nil, &x.h), x.res...)
			must(s.Write(record(reply)))(t)
			if got := nextRecord(c); !bytes.Equal(got, reply) {
				t.Fatalf("%d octets reached the client, not %d:\n%x\n%x", len(got), len(reply), got[:min(200, len(got))], reply[:min(200, len(reply))])
			}
			if st := inner.Stats(); (st.WriteSegments > 0) != x.chunks || len(x.res) > 4096 && st.OctetsWritten == 0 {
				t.Errorf("%d octets of results: %+v", len(x.res), st.ChunkStats)
			}
		})
	}
}

// remove is a REMOVE of NFSv3 with this XID.
func remove(xid uint32) []byte {
	h := xdr.CallHeader{XID: xid, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcRemove)}
	return xdr.AppendOpaque(xdr.AppendOpaque(xdr.AppendCall(nil, &h), octets(32)), []byte("name"))
}

// proxied is a proxy on TCP before a server that the test plays.
func proxied(t *testing.T) (p *proxy.Proxy, back, front net.Listener) {
	back, front = listen(t), listen(t)
	p = &proxy.Proxy{Dial: server(back)}
	go p.ServeStream(front)
	t.Cleanup(func() { p.Close() })
	return p, back, front
}

// TestOnce: a client that loses its connection while the server works on a call that must not run twice gets the reply to it
// on the next one; the server sees it once, and its connection does not end meanwhile.
func TestOnce(t *testing.T) {
	p, back, front := proxied(t)
	c := dial(t, front)
	must(c.Write(record(remove(7))))(t)
	s := accept(t, back)
	if got := nextRecord(s); !bytes.Equal(got, remove(7)) {
		t.Fatalf("%x", got)
	}
	c.Close()
	again := dial(t, front)
	must(again.Write(record(remove(7))))(t)
	for p.Stats().Joined == 0 {
		time.Sleep(time.Millisecond)
	}
	reply := append(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 7}), words(0, 0, 0)...)
	must(s.Write(record(reply)))(t)
	if got := nextRecord(again); !bytes.Equal(got, reply) {
		t.Errorf("%x", got)
	}
	if got := nextRecord(s); got != nil {
		t.Errorf("the server has got another call: %x", got)
	}
}

// TestFailedIsNotKept: a call to which the server has given no answer is a new one when it comes again.
func TestFailedIsNotKept(t *testing.T) {
	_, back, front := proxied(t)
	for range 2 {
		c := dial(t, front)
		must(c.Write(record(remove(7))))(t)
		s := accept(t, back)
		if got := nextRecord(s); !bytes.Equal(got, remove(7)) {
			t.Errorf("%x", got)
		}
		s.Close()
		if got := nextRecord(c); got != nil {
			t.Errorf("answered: %x", got)
		}
	}
}

// TestSentAgain: a call that comes again on the same connection is not made again while the first one is not answered.
func TestSentAgain(t *testing.T) {
	_, back, front := proxied(t)
	c := dial(t, front)
	must(c.Write(record(message(7, false, nil))))(t)
	s := accept(t, back)
	first := nextRecord(s)
	must(c.Write(append(record(message(7, false, nil)), record(message(8, false, nil))...)))(t)
	if got := nextRecord(s); !bytes.Equal(first, message(7, false, nil)) || !bytes.Equal(got, message(8, false, nil)) {
		t.Errorf("%x, then %x", first, got)
	}
	must(s.Write(append(record(message(8, true, nil)), record(message(7, true, nil))...)))(t)
	for range 2 {
		if got := nextRecord(c); len(got) != len(message(7, true, nil)) {
			t.Errorf("%x", got)
		}
	}
}

// TestCheck: a call that its client must not make reaches no server, and ends the connection.
func TestCheck(t *testing.T) {
	back, front := listen(t), listen(t)
	p := &proxy.Proxy{Dial: server(back), Check: func(a net.Addr, call *xdr.CallHeader) error {
		if call.XID == 8 && a != nil {
			return errors.New("not for you")
		}
		return nil
	}}
	go p.ServeStream(front)
	defer p.Close()
	c := dial(t, front)
	must(c.Write(record(message(7, false, nil))))(t)
	s := accept(t, back)
	nextRecord(s)
	must(s.Write(record(message(7, true, nil))))(t)
	if got := nextRecord(c); !bytes.Equal(got, message(7, true, nil)) {
		t.Errorf("%x", got)
	}
	must(c.Write(record(message(8, false, nil))))(t)
	if got := nextRecord(s); got != nil {
		t.Errorf("passed on: %x", got)
	}
	if got := nextRecord(c); got != nil {
		t.Errorf("answered: %x", got)
	}
}

// TestRoom: what a server on RDMA may answer to a program that no binding knows counts as memory of calls.
func TestRoom(t *testing.T) {
	p, _, front, back := both(t)
	c := must(net.Dial("tcp", front))(t)
	defer c.Close()
	must(c.Write(record(message(7, false, nil))))(t)
	s := accept(t, back)
	nextRecord(s)
	if held := p.Stats().Held; held < transport.DefaultMaxPayload {
		t.Errorf("%d octets are held", held)
	}
}
