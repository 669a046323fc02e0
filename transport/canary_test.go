package transport_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// canary is what the memory of others is full of. It is also what pooled memory is
// poisoned with under the race detector, and no run of it is in the data of filled.
const canary = 0xcc

// stale finds octets of others.
func stale(b []byte) bool { return bytes.Contains(b, []byte{canary, canary, canary, canary}) }

// taint fills the pools of the process with octets of another client: what transport
// keeps directly, what the engine keeps by sending them in every form both ways.
func taint(t *testing.T, c rpc.Caller) {
	t.Helper()
	var list []*memory.Buffer
	for _, n := range memory.Sizes {
		for range 1 + (256<<10)/n { // a call may take several
			b := memory.Shared.Get(n)
			list = append(list, b)
			for i := range b.Data {
				b.Data[i] = canary
			}
		}
	}
	for _, b := range list {
		b.Release()
	}
	for _, n := range []int{1, 900, 3000, 70_000} {
		p := bytes.Repeat([]byte{canary}, n)
		call := echoCall(p)
		call.MaxResults = n + 64
		mustDo(t, c, call)
		call = echoCall(p)
		call.Sink, call.MaxResults = make([]byte, n), 64
		mustDo(t, c, call)
	}
}

// tap records what is written to a connection.
type tap struct {
	net.Conn
	mu  sync.Mutex
	all []byte
}

func (c *tap) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.all = append(c.all, p...)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *tap) written() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

// TestNothingStaleOnTheWire: after another client has filled every pool with its octets,
// none of them is in what a client gets in random calls of all forms, and none in what
// goes to the server. Headers, XDR pads, the pads of FPDUs and what is behind the
// messages are looked at like everything else (RFC 5042 Section 6.3.2).
func TestNothingStaleOnTheWire(t *testing.T) {
	for _, profile := range []rpcrdma.Profile{rpcrdma.RFC8166, rpcrdma.RFC5666} {
		t.Run(profile.String(), func(t *testing.T) {
			cfg := testConfig()
			configOf(profile, cfg, 0)
			s, addr := startServer(t, newEcho(), cfg)
			other := dial(t, addr, cfg)
			a, b := rdmaptest.Pipe()
			up, down := &tap{Conn: a}, &tap{Conn: b}
			served := make(chan error, 1)
			go func() { served <- s.ServeConn(down) }()
			c := must(transport.NewClient(testCtx(t), up, cfg))(t)
			rnd := rand.New(rand.NewPCG(5, uint64(profile)))
			rounds := 15
			if raceEnabled {
				rounds = 3 // memory is poisoned octet by octet
			}
			for range rounds {
				taint(t, other)
				n := 1 + rnd.IntN(1<<(3+rnd.IntN(16)))
				call := echoCall(filled(n))
				switch rnd.IntN(6) {
				case 0:
					call.Sink, call.MaxResults = make([]byte, n), 64
				case 1:
					call.MaxResults = n + 64 // a reply chunk
				case 2:
					call = wordCall(procList, uint32(n/4))
					call.MaxResults = n + 64
				case 3: // arguments that are not eligible: a long call
					call = &rpc.Call{Prog: testProg, Vers: testVers, Proc: procSum, Args: xdr.AppendOpaque(nil, filled(n))}
				case 4:
					call = &rpc.Call{Prog: testProg, Vers: testVers, Proc: 99, Args: filled(4 + n/4*4)}
				}
				if rnd.IntN(2) == 0 {
					call.Cred = (&xdr.SysCred{MachineName: "client"[:rnd.IntN(7)], GIDs: make([]uint32, rnd.IntN(16))}).Auth()
				}
				var r rpc.Reply
				_ = c.Do(testCtx(t), call, &r) // some do not fit, and say so
				if stale(r.Results) || stale(call.Sink) {
					t.Fatal("octets of another client in a reply")
				}
				r.Release()
			}
			c.Close()
			<-served
			if stale(down.written()) {
				t.Error("octets of another client on the wire to the client")
			}
			if stale(up.written()) {
				t.Error("octets of other calls on the wire to the server")
			}
		})
	}
}

// TestNothingStaleToRead: what is registered for a peer to read is exactly what is meant
// for it, to the octet: nothing stale in it, and nothing beside it.
func TestNothingStaleToRead(t *testing.T) {
	t.Run("exposed reply", func(t *testing.T) {
		cfg := testConfig()
		cfg.RFC5666 = new(transport.RFC5666)
		_, addr := startServer(t, newEcho(), cfg)
		other := dial(t, addr, nil)
		for _, beyond := range []uint32{0, 1} {
			taint(t, other)
			p := exposedReader(t, addr)
			p.ask(1, 30_001)
			h := p.exposed()
			for i := range h.Read {
				seg := h.Read[i].Segment
				got := make([]byte, seg.Length+beyond)
				err := p.conn.Read(testCtx(t), got, memory.STag(seg.Handle), seg.Offset)
				if (err == nil) != (beyond == 0) || stale(got) {
					t.Errorf("%d octets more than offered: %v, stale %v", beyond, err, stale(got))
				}
			}
		}
	})
	for name, beyond := range map[string]uint32{"call": 0, "beyond a call": 1} {
		t.Run(name, func(t *testing.T) {
			_, addr := startServer(t, newEcho(), nil)
			taint(t, dial(t, addr, nil))
			looked := make(chan error, 1)
			c := rawServer(t, nil, nil, func(p *rawPeer, h *rpcrdma.Header, _ []byte) {
				seg := h.Read[0].Segment
				got := make([]byte, seg.Length+beyond)
				err := p.conn.Read(testCtx(t), got, memory.STag(seg.Handle), seg.Offset)
				if stale(got) {
					t.Error("octets of other calls")
				}
				looked <- err
				p.conn.Abort(nil)
			})
			long := rpc.Call{Prog: testProg, Vers: testVers, Proc: procSum, Args: xdr.AppendOpaque(nil, filled(9001))}
			var r rpc.Reply
			if err := c.Do(testCtx(t), &long, &r); err == nil {
				t.Error("an answer that nobody gave")
			}
			if err := <-looked; (err == nil) != (beyond == 0) {
				t.Errorf("%d octets more than offered: %v", beyond, err)
			}
		})
	}
}

// TestNothingStalePassedOn: a server that says it has written what it has not makes a
// relay pass on zeros, not the octets of other clients.
func TestNothingStalePassedOn(t *testing.T) {
	const n = 9000
	for name, call := range map[string][]byte{
		"write chunk": rpcCall(9, procEcho, xdr.AppendOpaque(nil, filled(n))...),
		"reply chunk": rpcCall(9, procList, words(n)...),
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := startServer(t, newEcho(), nil)
			taint(t, dial(t, addr, nil))
			c := rawServer(t, nil, nil, func(p *rawPeer, h *rpcrdma.Header, _ []byte) {
				msg := rpcReply(h.XID, words(n)...)
				answer := rpcrdma.Header{XID: h.XID, Lists: h.Lists}
				answer.Read = nil
				if len(h.Write) > 0 != (name == "write chunk") {
					t.Errorf("offered %+v", h.Lists)
				}
				if len(h.Write) > 0 {
					answer.Write[0][0].Length = n
					answer.Reply.Clear()
					p.send(header(answer), msg, words(0xfeedface))
					return
				}
				seg := answer.Reply[0]
				if err := p.conn.Write(testCtx(t), msg, memory.STag(seg.Handle), seg.Offset); err != nil {
					t.Error(err)
				}
				answer.Type, answer.Reply[0].Length = rpcrdma.MsgTypeNoMsg, uint32(len(msg)+n)
				p.send(header(answer))
			})
			conn := transport.NewCallConn(c)
			must(conn.Write(markedRecord(call)))(t)
			got := make([]byte, n)
			must(io.ReadFull(conn, got))(t)
			if stale(got) {
				t.Error("octets of another client")
			}
			conn.Close()
		})
	}
}
