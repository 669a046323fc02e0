package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c := must(net.Dial("tcp", l.Addr().String()))(t)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// accept takes the next connection of l, which has a minute.
func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c := must(l.Accept())(t)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// server dials the TCP server behind l.
func server(l net.Listener) func(context.Context, rpc.Handler) (proxy.Server, error) {
	return func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
		return transport.DialStream(ctx, "tcp", l.Addr().String(), nil)
	}
}

// TestEnds: whichever side goes, the other one sees it. A client has a connection to the server from its first call on.
func TestEnds(t *testing.T) {
	back, front := listen(t), listen(t)
	p := &proxy.Proxy{Dial: server(back)}
	served := make(chan error, 1)
	go func() { served <- p.ServeStream(front) }()
	for _, first := range []string{"client", "server", "proxy"} {
		c := dial(t, front)
		must(c.Write(record(message(7, false, nil))))(t)
		s := accept(t, back)
		if got := nextRecord(s); !bytes.Equal(got, message(7, false, nil)) {
			t.Errorf("%x", got)
		}
		if first != "proxy" {
			must(s.Write(record(message(7, true, nil))))(t)
			if got := nextRecord(c); !bytes.Equal(got, message(7, true, nil)) {
				t.Errorf("%x", got)
			}
		}
		other := s
		switch first {
		case "client":
			c.Close()
		case "server":
			s.Close()
			other = c
		case "proxy":
			p.Close()
		}
		if _, err := other.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the %s's end: %v", first, err)
		}
		s.Close()
	}
	if err := <-served; !errors.Is(err, transport.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
	if err := p.Serve(listen(t)); !errors.Is(err, transport.ErrServerClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
}

// TestCloseWhileDialing: Close does not wait for a server that does not answer.
func TestCloseWhileDialing(t *testing.T) {
	front := listen(t)
	begun := make(chan struct{})
	p := &proxy.Proxy{DialTimeout: time.Minute, Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	go p.ServeStream(front)
	must(dial(t, front).Write(record(message(7, false, nil))))(t)
	<-begun
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("Close waits")
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLater: every procedure's answer is a complete one, with the status that asks for patience.
func TestLater(t *testing.T) {
	for p := nfs3.ProcGetAttr; p < nfs3.ProcCount; p++ {
		b := proxy.Later(nil, p)
		d := xdr.NewDecoder(b)
		if err := xdr.Decode(&d, p.NewRes()).Err(); err != nil || len(d.Rest()) > 0 {
			t.Errorf("%v: %v, %d octets left", p, err, len(d.Rest()))
		}
		d = xdr.NewDecoder(b)
		if s := nfs3.Status(d.Uint32()); s != nfs3.ErrJukebox {
			t.Errorf("%v: %v", p, s)
		}
	}
}

// TestAway: while the server cannot be reached, clients on both transports are told so, call by call, and
// served when it is back.
func TestAway(t *testing.T) {
	back := listen(t)
	s := &transport.Server{Handler: rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
		resp.Results = xdr.AppendUint32(resp.Results, 0)
	})}
	go s.ServeStream(back)
	defer s.Close()
	var down atomic.Bool
	down.Store(true)
	front := listen(t)
	p := &proxy.Proxy{Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
		if down.Load() {
			return nil, errors.New("no server")
		}
		return transport.DialStream(ctx, "tcp", back.Addr().String(), nil)
	}}
	plain := listen(t)
	go p.Serve(front)
	go p.ServeStream(plain)
	defer p.Close()
	clients := func() (list []rpc.Caller) {
		r := must(transport.Dial(t.Context(), "tcp", front.Addr().String(), nil))(t)
		c := must(net.Dial("tcp", plain.Addr().String()))(t)
		s := must(transport.NewStreamClient(context.Background(), c, nil))(t)
		t.Cleanup(func() { _, _ = r.Close(), s.Close() }) // nothing is awaited
		return []rpc.Caller{r, s}
	}
	call := func(c rpc.Caller, prog, vers, proc uint32) (xdr.AcceptStat, uint32, error) {
		var reply rpc.Reply
		defer reply.Release()
		err := c.Do(t.Context(), &rpc.Call{Prog: prog, Vers: vers, Proc: proc}, &reply)
		d := xdr.NewDecoder(reply.Results)
		return reply.Header.Accept, d.Uint32(), err
	}
	for _, c := range clients() {
		if stat, _, err := call(c, nfs3.Program, 3, 0); err != nil || stat != xdr.SystemErr {
			t.Error(stat, err)
		}
		if _, st, err := call(c, nfs3.Program, 3, uint32(nfs3.ProcRead)); err != nil || nfs3.Status(st) != nfs3.ErrJukebox {
			t.Error(st, err)
		}
		if _, st, err := call(c, mount3.Program, 3, uint32(mount3.ProcMnt)); err != nil || mount3.Status(st) != mount3.ErrServerFault {
			t.Error(st, err)
		}
		if stat, _, err := call(c, mount3.Program, 3, uint32(mount3.ProcExport)); err != nil || stat != xdr.SystemErr {
			t.Error(stat, err)
		}
		if _, _, err := call(c, nfs3.Program, 4, 1); err == nil { // NFSv4 has no such answer
			t.Error("answered")
		}
	}
	if st := p.Stats(); st.Failed != 2 {
		t.Errorf("%+v", st)
	}
	down.Store(false)
	for _, c := range clients() {
		if stat, st, err := call(c, nfs3.Program, 3, uint32(nfs3.ProcRead)); err != nil || stat != xdr.Success || st != 0 {
			t.Error(stat, st, err)
		}
	}
	for len(p.Clients()) != 2 {
		time.Sleep(time.Millisecond) // the earlier ones have been cut, and are about to go
	}
}

// pipes is a listener of connections that are there already.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestSilentServer: a client whose server does not answer sees an end, and is counted.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front := make(pipes, 1)
		p := &proxy.Proxy{Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
			a, b := net.Pipe()
			go io.Copy(io.Discard, b)
			return transport.NewStreamClient(ctx, a, nil)
		}}
		served := make(chan error)
		go func() { served <- p.ServeStream(front) }()
		c, s := net.Pipe()
		front <- s
		must(c.Write(record(message(7, false, nil))))(t)
		c.SetReadDeadline(time.Now().Add(time.Hour))
		begun := time.Now()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF || time.Since(begun) > 4*time.Minute {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		close(front)
		<-served
		p.Close()
		if st := p.Stats(); st.Slow != 1 || st.Accepted != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestServerEnds: whatever a server does that answers nothing, its client sees an end. One that is idle, or slow, stays.
func TestServerEnds(t *testing.T) {
	call, reply := record(message(7, false, nil)), record(message(7, true, nil))
	for _, x := range []struct {
		name   string
		server func(s net.Conn) // after it has read call 7
		ends   bool
	}{
		{"half a mark", func(s net.Conn) { s.Write(reply[:2]) }, true},
		{"half a record", func(s net.Conn) { s.Write(reply[:9]) }, true},
		{"the rest an octet a time", func(s net.Conn) {
			s.Write(record(make([]byte, 1<<20))[:100])
			for err := error(nil); err == nil; _, err = s.Write([]byte{0}) {
				time.Sleep(5 * time.Second)
			}
		}, true},
		{"fragments without end", func(s net.Conn) {
			for err := error(nil); err == nil; _, err = s.Write([]byte{0, 0, 0, 0}) {
				time.Sleep(time.Second)
			}
		}, true},
		{"answers to others", func(s net.Conn) {
			xid := uint32(8)
			for err := error(nil); err == nil; _, err = s.Write(record(message(xid, true, nil))) {
				time.Sleep(time.Second)
				xid++
			}
		}, true},
		{"an answer", func(s net.Conn) { s.Write(reply) }, false},
		{"a late answer, in pieces", func(s net.Conn) {
			time.Sleep(2 * time.Minute)
			for _, b := range reply {
				time.Sleep(time.Second)
				s.Write([]byte{b})
			}
		}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to, s := rdmaptest.Pipe()
				front := make(pipes, 1)
				p := &proxy.Proxy{Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
					return transport.NewStreamClient(ctx, to, nil)
				}}
				served := make(chan error)
				go func() { served <- p.ServeStream(front) }()
				c, a := rdmaptest.Pipe()
				front <- a
				must(c.Write(call))(t)
				must(io.ReadFull(s, make([]byte, len(call))))(t)
				done := make(chan struct{})
				go func() {
					x.server(s)
					close(done)
				}()
				c.SetReadDeadline(time.Now().Add(time.Hour))
				begun := time.Now()
				got := nextRecord(c)
				if x.ends && (got != nil || time.Since(begun) > 4*time.Minute) || !x.ends && got == nil {
					t.Errorf("after %v: %x", time.Since(begun), got)
				}
				if !x.ends {
					if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error(err)
					}
				}
				c.Close()
				s.Close()
				<-done
				close(front)
				<-served
				p.Close()
			})
		})
	}
}

// cbProgram is the callback program of NFSv4 (RFC 8881 Section 20).
const cbProgram = 0x40000000

// TestBackChannel: a TCP server calls its client on the connection that the client has
// made, as NFSv4.1 servers do; through the proxy the call reaches a client on RDMA.
func TestBackChannel(t *testing.T) {
	back := listen(t)
	front := listen(t)
	p := &proxy.Proxy{
		Config: &transport.Config{Backward: transport.Backward{Credits: 4}},
		Dial: func(ctx context.Context, h rpc.Handler) (proxy.Server, error) {
			return transport.DialStream(ctx, "tcp", back.Addr().String(), &transport.Config{Backward: transport.Backward{Credits: 4, Handler: h}})
		},
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(front) }()
	defer func() {
		p.Close()
		<-served
	}()
	cfg := &transport.Config{Backward: transport.Backward{Credits: 4, Handler: rpc.HandlerFunc(
		func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
			if req.Prog != cbProgram {
				resp.Stat = xdr.ProgUnavail
			}
			resp.Results = append(resp.Results, req.Args...)
		})}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := must(transport.Dial(ctx, "tcp", front.Addr().String(), cfg))(t)
	defer c.Close()
	got := make(chan error, 1)
	go func() {
		var reply rpc.Reply
		defer reply.Release()
		got <- c.Do(ctx, &rpc.Call{Prog: 100003, Vers: 4}, &reply)
	}()

	s := accept(t, back)
	in := xdr.NewRecordReader(s, 1<<16)
	call := must(in.Next(nil))(t)
	xid, _, _ := xdr.PeekXID(call)
	cb := xdr.CallHeader{XID: xid, RPCVers: xdr.RPCVersion, Prog: cbProgram, Vers: 1, Proc: 1} // the same XID
	writeRecord(t, s, xdr.AppendUint32(xdr.AppendCall(nil, &cb), 4711))
	msg := must(in.Next(nil))(t)
	var h xdr.ReplyHeader
	d := xdr.NewDecoder(msg)
	if err := h.Parse(&d); err != nil || h.XID != xid || h.Err() != nil || d.Uint32() != 4711 {
		t.Errorf("%v, %+v", err, h)
	}
	writeRecord(t, s, xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid}))
	if err := <-got; err != nil {
		t.Error(err)
	}
	if st := p.Stats(); st.BackwardCalls != 1 || st.BackwardReplies != 1 {
		t.Errorf("%+v", st)
	}
}

func writeRecord(t *testing.T, c net.Conn, msg []byte) {
	t.Helper()
	must(c.Write(append(xdr.AppendRecordMark(nil, len(msg), true), msg...)))(t)
}
