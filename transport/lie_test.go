package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

var lies = flag.Int("lies", 80, "seeds of TestServerOfLiar and TestClientOfLiar")

// handled notes what the handler was given.
type handled struct {
	rpc.Handler
	calls [][]byte
}

func (h *handled) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	h.calls = append(h.calls, bytes.Clone(d.Opaque(8<<20)))
	h.Handler.ServeRPC(ctx, req, resp)
}

// taintShared fills what transport keeps of memory with octets of others.
func taintShared() {
	if raceEnabled {
		return // it is poisoned whenever it is given back, with the same octet
	}
	var list []*memory.Buffer
	for _, n := range memory.Sizes {
		for range 4 {
			b := memory.Shared.Get(n)
			for i := range b.Data {
				b.Data[i] = canary
			}
			list = append(list, b)
		}
	}
	for _, b := range list {
		b.Release()
	}
}

// opaqueCall is a call of procEcho with p in it, or, with lists, behind its length alone.
func opaqueCall(xid uint32, p []byte, inline bool) []byte {
	if inline {
		return rpcCall(xid, procEcho, xdr.AppendOpaque(nil, p)...)
	}
	return rpcCall(xid, procEcho, words(uint32(len(p)))...)
}

// TestServerOfLiar: a client that permutes, repeats, leaves out, overlaps and splits the segments of its calls, and of its
// Read Responses, over memory that is full of octets of others. A call is executed only with octets that were sent
// for it; whatever else happens, the connection ends, and nothing of others is in what the server sends.
//
// spec: rdmap 7.5 liar
func TestServerOfLiar(t *testing.T) {
	executed := 0
	for seed := range *lies {
		rnd := rand.New(rand.NewPCG(uint64(seed), 181))
		h := &handled{Handler: newEcho()}
		s := &transport.Server{Handler: h, Config: testConfig()}
		s.Config.InlineRecv = 256 << 10
		a, b := rdmaptest.Pipe()
		out := &tap{Conn: b}
		served := make(chan error, 1)
		go func() { served <- s.ServeConn(out) }()
		p, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 8, ORD: 8, PrivateData: rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 256 << 10, RecvSize: 4096}.Append(nil)})
		noErr(t, err)
		taintShared()
		l := rdmaptest.NewLiar(p, rnd)
		data := filled(1 + rnd.IntN(1<<(2+rnd.IntN(16)))) // less than a Send may have
		lists, mem := chunks.Lists{}, []byte(nil)
		call := opaqueCall(7, data, true)
		hd := rpcrdma.Header{XID: 7}
		switch rnd.IntN(3) {
		case 0: // all of it in the Send
		case 1: // its data in a read chunk, of one or two segments
			mem, call = data, opaqueCall(7, data, false)
			half := len(data) / 2
			lists.Read = []chunks.ReadSegment{{Position: 44, Segment: chunks.Segment{Handle: 5, Length: uint32(half)}}}
			lists.Read = append(lists.Read, chunks.ReadSegment{Position: 44, Segment: chunks.Segment{Handle: 6, Length: uint32(len(data) - half), Offset: uint64(half)}})
			if half == 0 || rnd.IntN(2) == 0 {
				lists.Read = []chunks.ReadSegment{{Position: 44, Segment: chunks.Segment{Handle: 5, Length: uint32(len(data))}}}
			}
		case 2: // all of it in a read chunk
			mem, call = call, nil
			lists.Read = []chunks.ReadSegment{{Segment: chunks.Segment{Handle: 5, Length: uint32(len(mem))}}}
			hd.Type = rpcrdma.MsgTypeNoMsg
		}
		hd.Lists = lists
		l.Say(append(header(hd), call...))
		_, ok := l.Listen(mem)
		l.End()
		<-served
		for _, got := range h.calls {
			if !bytes.Equal(got, data) && (got != nil || !l.Short) {
				t.Fatalf("seed %d: executed with octets that nobody sent for it; %d octets, of others %v", seed, len(got), stale(got))
			}
		}
		switch {
		case stale(out.written()):
			t.Fatalf("seed %d: octets of others in what the server sent", seed)
		case l.Caught && len(h.calls) > 0:
			t.Fatalf("seed %d: a lie was executed", seed)
		case !l.Caught && !ok:
			t.Fatalf("seed %d: no answer to a call that was whole: %v", seed, l.Short)
		case len(h.calls) > 0:
			executed++
		}
		s.Close()
	}
	if executed == 0 || executed > *lies*4/5 {
		t.Errorf("%d of %d calls were executed: the test shows nothing", executed, *lies)
	}
}

// TestClientOfLiar: a server that does so with its replies, and with the Read Responses of those that it has its client
// read. A call returns only octets that were sent for it.
//
// spec: rdmap 7.5 liar
func TestClientOfLiar(t *testing.T) {
	returned := 0
	for seed := range *lies {
		rnd := rand.New(rand.NewPCG(uint64(seed), 182))
		cfg := testConfig()
		exposes := rnd.IntN(2) == 0
		if exposes {
			cfg.RFC5666 = &transport.RFC5666{NoConfigCall: true}
		}
		l, c := lyingServer(t, cfg, rnd)
		taintShared()
		n := 1 + rnd.IntN(1<<(2+rnd.IntN(16)))
		if !exposes {
			n = 1 + n%4000
		}
		data := filled(n)
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer l.End()
			msg, ok := l.Listen(nil)
			if ok && rpcProc(msg[rpcrdma.MinHeaderSize:]) == procNull { // it asks for the grant
				xid := binary.BigEndian.Uint32(msg)
				l.Say(append(header(rpcrdma.Header{XID: xid}), rpcReply(xid)...))
				if l.Short || l.Caught {
					return
				}
				msg, ok = l.Listen(nil)
			}
			if !ok {
				return
			}
			xid := binary.BigEndian.Uint32(msg)
			hd, reply := rpcrdma.Header{XID: xid}, rpcReply(xid, xdr.AppendOpaque(nil, data)...)
			if exposes {
				hd.Type = rpcrdma.MsgTypeNoMsg
				hd.Read = []chunks.ReadSegment{{Segment: chunks.Segment{Handle: 9, Length: uint32(len(reply))}}}
				l.Say(header(hd))
			} else {
				l.Say(append(header(hd), reply...))
			}
			if l.Short {
				return // the client may wait for more
			}
			l.Listen(reply)
		}()
		var r rpc.Reply
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := c.Do(ctx, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procFill, Args: words(uint32(n)), MaxResults: n + 64}, &r)
		cancel()
		got := bytes.Clone(r.Results)
		r.Release()
		c.Close()
		<-over
		whole := bytes.Equal(got, xdr.AppendOpaque(nil, data))
		switch {
		case stale(got):
			t.Fatalf("seed %d: octets of others in a reply", seed)
		case err == nil && l.Caught:
			t.Fatalf("seed %d: a lie was taken for a reply", seed)
		case err == nil && !whole && !l.Short:
			t.Fatalf("seed %d: %d octets that nobody sent", seed, len(got))
		case err != nil && !l.Caught && !l.Short:
			t.Fatalf("seed %d: %v for a whole reply", seed, err)
		case err == nil && whole:
			returned++
		}
	}
	if returned == 0 || returned > *lies*4/5 {
		t.Errorf("%d of %d calls returned: the test shows nothing", returned, *lies)
	}
}

// lyingServer connects a client to a liar.
func lyingServer(t *testing.T, cfg *transport.Config, rnd *rand.Rand) (*rdmaptest.Liar, *transport.Client) {
	t.Helper()
	a, b := rdmaptest.Pipe()
	peer := make(chan *rdmaptest.Peer, 1)
	go func() {
		p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8}, usualPrivate())
		if err != nil {
			t.Error(err)
		}
		peer <- p
	}()
	c := must(transport.NewClient(testCtx(t), a, cfg))(t)
	return rdmaptest.NewLiar(<-peer, rnd), c
}
