package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Procedures of NFS version 3 that reader serves.
const (
	nfsGetattr = 1
	nfsRead    = 6
)

// reader answers READs of NFS with as many octets as were asked for.
type reader struct{}

func (reader) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: req.Proc == nfsRead}
}

func (reader) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc != nfsRead {
		return
	}
	d := xdr.NewDecoder(req.Args)
	d.Opaque(64)
	d.Uint64()
	resp.AppendItem(resp.Buffer(int(d.Uint32())))
}

// readCall returns the record of a READ of n octets.
func readCall(xid uint32, n uint32) []byte {
	h := xdr.CallHeader{XID: xid, RPCVers: xdr.RPCVersion, Prog: 100003, Vers: 3, Proc: nfsRead}
	msg := xdr.AppendCall(nil, &h)
	msg = xdr.AppendOpaque(msg, make([]byte, 32))
	msg = xdr.AppendUint64(msg, 0)
	msg = xdr.AppendUint32(msg, n)
	return markedRecord(msg)
}

// TestUnreadReplies: clients that ask for many large replies and read none take no more than
// Limits.Memory, are cut when others wait for it, and keep nobody from small calls.
func TestUnreadReplies(t *testing.T) {
	w := newWorld(t)
	for name, secure := range map[string]*transport.Config{"clear": nil, "TLS": w.serverConfig()} {
		t.Run(name, func(t *testing.T) { unreadReplies(t, w, secure) })
	}
}

func unreadReplies(t *testing.T, w *world, secure *transport.Config) {
	const limit = 16 << 20
	cfg := &transport.Config{Limits: transport.Limits{Memory: limit}, Timeouts: transport.Timeouts{Pull: 2 * time.Second}}
	var own *transport.Config
	if secure != nil {
		cfg.TLS, own = secure.TLS, w.clientConfig()
	}
	s, addr := served(t, overTCP, reader{}, cfg)
	honest := dialStream(t, addr, own)
	var calls []byte
	for xid := range uint32(32) {
		calls = append(calls, readCall(xid, 1<<20)...)
	}
	const clients = 24
	for range clients {
		c := must(net.Dial("tcp", addr))(t)
		defer c.Close()
		if own != nil {
			must(c.Write(probe))(t)
			must(io.ReadFull(c, make([]byte, len(starttls))))(t)
			c = tls.Client(c, &tls.Config{RootCAs: w.servers.Pool(), ServerName: "nfs.test"})
		}
		must(c.Write(calls))(t)
	}
	most := int64(0)
	waitFor(t, "all are cut", func() bool {
		noErr(t, try(t, honest, &rpc.Call{Prog: 100003, Vers: 3, Proc: nfsGetattr}))
		most = max(most, s.Stats().Held)
		return s.Stats().SlowPeers == clients
	})
	if most > limit || most == 0 {
		t.Errorf("%d octets held, the limit is %d", most, limit)
	}
	if s.Stats().Waited == 0 {
		t.Error("no call has waited")
	}
}

// asker calls the client back.
type asker struct{ waits atomic.Int32 }

func (*asker) Describe(_ *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: true}
}

func (a *asker) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc == nfsRead {
		reader{}.ServeRPC(ctx, req, resp)
		return
	}
	b := req.Backward
	b.Enable()
	a.waits.Add(1)
	var r rpc.Reply
	defer r.Release()
	if b.Do(ctx, &rpc.Call{Prog: 400100, Vers: 1}, &r) != nil {
		resp.Stat = xdr.SystemErr
	}
}

// TestHandlersWaitForTheirClient: as many handlers of a connection as like may wait for replies of its
// client, whatever its credits: the replies are read all the same.
func TestHandlersWaitForTheirClient(t *testing.T) {
	for _, tt := range []struct{ credits, calls int }{{1, 2}, {0, 200}} {
		s, addr := served(t, overTCP, new(asker), &transport.Config{Credits: tt.credits, Backward: transport.Backward{Credits: 8}})
		c := dialStream(t, addr, &transport.Config{
			Backward: transport.Backward{Credits: 8, Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})},
		})
		ctx := testCtx(t)
		var wg sync.WaitGroup
		for range tt.calls {
			wg.Go(func() {
				var r rpc.Reply
				defer r.Release()
				if err := c.Do(ctx, &rpc.Call{Prog: 400100, Vers: 1}, &r); err != nil {
					t.Error(err)
				} else if err := r.Header.Err(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		waitFor(t, "all are answered", func() bool {
			st := s.Stats()
			return st.Held == 0 && int(st.BackwardReplies) == tt.calls
		})
	}
}

// TestStuck: when there is no memory for the next call of a connection while its handlers wait for its
// client, whose replies come behind that call, the connection ends.
func TestStuck(t *testing.T) {
	a := new(asker)
	s, addr := served(t, overTCP, a, &transport.Config{
		MaxPayload: 128 << 10, Limits: transport.Limits{Memory: 128 << 10}, Backward: transport.Backward{Credits: 8}, Timeouts: transport.Timeouts{Pull: time.Minute},
	})
	c, err := net.Dial("tcp", addr)
	noErr(t, err)
	defer c.Close()
	h := xdr.CallHeader{XID: 1, RPCVers: xdr.RPCVersion, Prog: 400100, Vers: 1}
	msg := xdr.AppendCall(nil, &h)
	for i := range 3 { // two wait for replies that do not come, and hold the price of a call
		if i == 2 {
			waitFor(t, "they wait", func() bool { return a.waits.Load() == 2 })
			_, err = c.Write(readCall(3, 120<<10))
		} else {
			_, err = c.Write(markedRecord(msg))
		}
		noErr(t, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	for err = nil; err == nil; {
		_, err = c.Read(make([]byte, 1000))
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		t.Errorf("the connection lives: %+v", s.Stats())
	}
	waitFor(t, "it is counted", func() bool { st := s.Stats(); return st.Stuck == 1 && st.Held == 0 })
}

// TestForeignReplies: replies that nobody waits for take no memory and are skipped, whether or not a handler of the
// connection calls its client.
func TestForeignReplies(t *testing.T) {
	for _, asks := range []bool{false, true} {
		a := new(asker)
		s, addr := served(t, overTCP, a, &transport.Config{Backward: transport.Backward{Credits: 8}})
		c := must(net.Dial("tcp", addr))(t)
		defer c.Close()
		if asks {
			h := xdr.CallHeader{XID: 1, RPCVers: xdr.RPCVersion, Prog: 400100, Vers: 1}
			must(c.Write(markedRecord(xdr.AppendCall(nil, &h))))(t)
			waitFor(t, "the client is asked", func() bool { return a.waits.Load() == 1 })
		}
		reply := append(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 99}), make([]byte, 1<<20)...)
		before := s.Stats()
		for range 32 {
			must(c.Write(markedRecord(reply)))(t)
			if n := s.Stats().Held; n != before.Held {
				t.Errorf("asks %v: %d octets held", asks, n-before.Held)
			}
		}
		waitFor(t, "all are dropped", func() bool { return s.Stats().Dropped == before.Dropped+32 })
		if n := s.Stats().OctetsInline - before.OctetsInline; n > 1<<20 {
			t.Errorf("asks %v: %d octets of them were taken in", asks, n)
		}
	}
}
