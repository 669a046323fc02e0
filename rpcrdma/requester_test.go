package rpcrdma_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// send is AppendCall for what Begin has taken: without it no reply is believed.
func send(t *testing.T, r *rpcrdma.Requester, c *rpcrdma.Call) {
	t.Helper()
	if _, _, err := r.AppendCall(nil, c); err != nil {
		t.Fatal(err)
	}
}

// answer feeds a NULL reply with the given grant.
func answer(t *testing.T, r *rpcrdma.Requester, xid, grant uint32) *rpcrdma.Call {
	t.Helper()
	h := rpcrdma.Header{XID: xid, Vers: rpcrdma.Version, Credit: grant}
	c, err := r.Receive(append(h.Append(nil), rpcReply(xid)...))
	if err != nil {
		t.Fatalf("reply to %#x: %v", xid, err)
	}
	return c
}

func nullCall(xid uint32) *rpcrdma.Call {
	return &rpcrdma.Call{XID: xid, Prog: 100003, Vers: 3, Message: chunks.Message{Head: rpcCall(xid, 0)}}
}

func TestRequesterAbortOfAnother(t *testing.T) {
	a, b := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{})), made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{}))
	c := nullCall(1)
	noErr(t, a.Begin(c))
	b.Abort(c)
	if a.Lookup(1) != c || b.InFlight() != 0 {
		t.Error("another machine's call was removed")
	}
}

// TestRequesterModel: random calls, replies, aborts and grants; no credit is
// ever lost or used twice, and replies find their calls.
func TestRequesterModel(t *testing.T) {
	rng := seeded(t)
	r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Credits: 20}))
	live := map[uint32]*rpcrdma.Call{}
	grant, xid := 1, uint32(0xfffffff0)
	for range 20000 {
		switch rng.IntN(5) {
		case 0, 1:
			xid += uint32(rng.IntN(40))
			c := nullCall(xid)
			err := r.Begin(c)
			_, used := live[xid]
			want := error(nil)
			if used {
				want = rpcrdma.ErrXIDInUse
			} else if len(live) >= grant {
				want = rpcrdma.ErrNoCredit
			} else {
				live[xid] = c
				send(t, r, c)
			}
			if !errors.Is(err, want) {
				t.Fatalf("begin %#x with %d of %d: %v, want %v", xid, len(live), grant, err, want)
			}
		case 2:
			for x, c := range live {
				g := rng.IntN(30)
				if got := answer(t, r, x, uint32(g)); got != c {
					t.Fatalf("reply to %#x answers %#x", x, got.XID)
				}
				delete(live, x)
				grant = min(max(g, 1), 20)
				break
			}
		case 3:
			for x, c := range live {
				if r.Lookup(x) != c || r.Lookup(x+1<<31) != nil {
					t.Fatalf("call %#x is not found", x)
				}
				if rng.IntN(2) == 0 {
					r.Abort(c)
					r.Abort(c) // twice is once
					delete(live, x)
				} else if !r.Cancel(c) { // it keeps its credit
					t.Fatalf("call %#x is not outstanding", x)
				}
				break
			}
		case 4:
			h := rpcrdma.Header{XID: rng.Uint32(), Vers: rpcrdma.Version, Credit: 1000, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}
			if live[h.XID] == nil {
				if c, err := r.Receive(h.Append(nil)); c != nil || !errors.Is(err, rpcrdma.ErrUnknownXID) {
					t.Fatalf("unknown XID: %v, %v", c, err)
				}
			}
		}
		if r.InFlight() != len(live) || r.Available() != max(grant-len(live), 0) {
			t.Fatalf("%d in flight, %d available; model %d of %d", r.InFlight(), r.Available(), len(live), grant)
		}
	}
	r.Drain(func(c *rpcrdma.Call) { delete(live, c.XID) })
	if len(live) != 0 || r.InFlight() != 0 {
		t.Errorf("drained all but %v, %d in flight", live, r.InFlight())
	}
}

// TestReplyToUnsent: a server that guesses the XID of a call that was not formed yet answers nothing.
func TestReplyToUnsent(t *testing.T) {
	r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Binding: chunks.NFSv3}))
	c := readCall(t, r)
	results := rpcReply(vectorXID)
	for _, w := range []uint32{0, 0, 0, 1, 0} {
		results = xdr.AppendUint32(results, w)
	}
	h := rpcrdma.Header{XID: vectorXID, Vers: rpcrdma.Version, Credit: 7}
	guess := append(h.Append(nil), results...)
	for range 2 {
		if got, err := r.Receive(guess); got != nil || !errors.Is(err, rpcrdma.ErrUnknownXID) || r.InFlight() != 1 {
			t.Fatalf("answered: %v", err)
		}
	}
	send(t, r, c)
	if got, err := r.Receive(guess); got != c || c.Result.Err != nil {
		t.Fatalf("%v, %v", err, c.Result.Err)
	}
	if err := r.Begin(c); err != nil { // the same call once more
		t.Fatal(err)
	}
	if got, _ := r.Receive(guess); got != nil {
		t.Error("answered before it was formed again")
	}
}

// readCall is the READ of the vectors, planned and begun.
func readCall(t *testing.T, r *rpcrdma.Requester) *rpcrdma.Call {
	t.Helper()
	args := unhex(t, vectors.read)[68:]
	c := &rpcrdma.Call{
		XID: vectorXID, Prog: 100003, Vers: 3, Proc: 6,
		Message: chunks.Message{Head: args[:40], Body: args[40:]},
		Sink:    8192, MaxReply: 24 + 104,
	}
	noErr(t, r.Plan(c))
	c.Memory.Sink = readChunk(4096, 4096)
	noErr(t, r.Begin(c))
	return c
}

// TestRequesterVectors makes the calls of the vectors, octet for octet.
func TestRequesterVectors(t *testing.T) {
	r := func() *rpcrdma.Requester {
		return made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Credits: 32, Binding: chunks.NFSv3}))
	}
	check := func(t *testing.T, r *rpcrdma.Requester, c *rpcrdma.Call, hex string) {
		t.Helper()
		head, body, err := r.AppendCall([]byte("x"), c)
		if err != nil || body != nil || string(head[1:]) != string(unhex(t, hex)) {
			t.Errorf("call, %v\n got %x %x\nwant %x", err, head[1:], body, unhex(t, hex))
		}
	}
	t.Run("6.1 NULL", func(t *testing.T) {
		r, c := r(), nullCall(vectorXID)
		if err := r.Plan(c); err != nil || c.Plan != (rpcrdma.Plan{}) {
			t.Fatalf("plan %+v, %v", c.Plan, err)
		}
		check(t, r, c, vectors.null)
	})
	t.Run("6.3 WRITE", func(t *testing.T) {
		r, args := r(), unhex(t, vectors.write)[76:]
		c := &rpcrdma.Call{XID: vectorXID, Message: chunks.Message{
			Head: args[:40], Body: args[40:], Items: []chunks.Item{{Pos: 96, Data: make([]byte, 8190)}},
		}}
		if err := r.Plan(c); err != nil || c.Plan != (rpcrdma.Plan{Form: rpcrdma.FormChunked, Arg: true}) {
			t.Fatalf("plan %+v, %v", c.Plan, err)
		}
		c.Memory.Arg = chunks.WriteChunk{segment(0xa1a1a1a1, 4096, 0x10000), segment(0xa1a1a1a2, 4094, 0x20000)}
		check(t, r, c, vectors.write)
	})
	t.Run("6.4 READ", func(t *testing.T) {
		r := r()
		check(t, r, readCall(t, r), vectors.read)
	})
	t.Run("6.7 long call", func(t *testing.T) {
		r := r()
		c := &rpcrdma.Call{XID: vectorXID, MaxReply: 32768, Message: chunks.Message{Head: rpcCall(vectorXID, 8), Body: make([]byte, 1260)}}
		if err := r.Plan(c); err != nil || c.Plan != (rpcrdma.Plan{Form: rpcrdma.FormLong, Stream: 1300, Reply: 32768}) {
			t.Fatalf("plan %+v, %v", c.Plan, err)
		}
		c.Memory.Stream = chunks.WriteChunk{segment(0xc1c1c1c1, 1300, 0x50000)}
		c.Memory.Reply = chunks.WriteChunk{segment(0xd1d1d1d1, 32768, 0x60000)}
		check(t, r, c, vectors.longCall)
		if got := c.AppendStream(nil); len(got) != 1300 {
			t.Errorf("a stream of %d octets", len(got))
		}
		for _, h := range []chunks.Handle{0xc1c1c1c1, 0xd1d1d1d1} {
			if !c.Offers(h) {
				t.Errorf("%v is not offered", h)
			}
		}
		if c.Offers(0xa1a1a1a1) {
			t.Error("a handle is offered that is not")
		}
	})
}

// reply is one reply to the READ of readCall.
type readReply struct {
	name string
	h    rpcrdma.Header
	rpc  []byte
	want error // of the call; nil: none
	drop error
}

func TestRequesterReplies(t *testing.T) {
	offered := func(a, b uint32) chunks.Lists {
		return chunks.Lists{Write: []chunks.WriteChunk{readChunk(a, b)}}
	}
	// results with the count given, no attributes
	results := func(n uint32) []byte {
		b := rpcReply(vectorXID)
		for _, w := range []uint32{0, 0, n, 1, n} {
			b = xdr.AppendUint32(b, w)
		}
		return b
	}
	stale := unhex(t, vectors.readStale)[68:]
	denied := xdr.AppendReply(nil, &xdr.ReplyHeader{XID: vectorXID, Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthTooWeak})
	with := func(l chunks.Lists, f func(*chunks.Lists)) chunks.Lists { f(&l); return l }
	bigger := readChunk(4096, 4097)
	for _, c := range []readReply{
		{"exact", rpcrdma.Header{Lists: offered(4096, 904)}, results(5000), nil, nil},
		{"rounded up", rpcrdma.Header{Lists: offered(4096, 904)}, results(4999), nil, nil},
		{"of nothing", rpcrdma.Header{Lists: offered(0, 0)}, results(0), nil, nil},
		{"STALE", rpcrdma.Header{Lists: offered(0, 0)}, stale, nil, nil},
		{"STALE, chunk not returned", rpcrdma.Header{}, stale, nil, nil},
		{"denied", rpcrdma.Header{Lists: offered(0, 0)}, denied, nil, nil},
		{"STALE, but octets written", rpcrdma.Header{Lists: offered(1, 0)}, stale, rpcrdma.ErrNotEligible, nil},
		{"denied, but octets written", rpcrdma.Header{Lists: offered(1, 0)}, denied, rpcrdma.ErrNotEligible, nil},
		{"short", rpcrdma.Header{Lists: offered(4096, 903)}, results(5000), rpcrdma.ErrItemLength, nil},
		{"long", rpcrdma.Header{Lists: offered(4096, 905)}, results(5000), rpcrdma.ErrItemLength, nil},
		{"left inline", rpcrdma.Header{Lists: offered(0, 0)}, append(results(8), "abcdefgh"...), rpcrdma.ErrNotReduced, nil},
		{"left inline, no chunk", rpcrdma.Header{}, append(results(8), "abcdefgh"...), rpcrdma.ErrNotReduced, nil},
		{"gap", rpcrdma.Header{Lists: offered(4000, 96)}, results(4096), chunks.ErrReturned, nil},
		{"grown", rpcrdma.Header{Lists: chunks.Lists{Write: []chunks.WriteChunk{bigger}}}, results(8193), chunks.ErrReturned, nil},
		{"one segment", rpcrdma.Header{Lists: chunks.Lists{Write: []chunks.WriteChunk{readChunk(4096, 0)[:1]}}}, results(4096), chunks.ErrReturned, nil},
		{"two chunks", rpcrdma.Header{Lists: chunks.Lists{Write: []chunks.WriteChunk{readChunk(4, 0), readChunk(0, 0)}}}, results(4), chunks.ErrReturned, nil},
		{"handle changed", rpcrdma.Header{Lists: with(offered(4, 0), func(l *chunks.Lists) { l.Write[0][1].Handle++ })}, results(4), chunks.ErrReturned, nil},
		{"offset changed", rpcrdma.Header{Lists: with(offered(4, 0), func(l *chunks.Lists) { l.Write[0][0].Offset++ })}, results(4), chunks.ErrReturned, nil},
		{"reply chunk never offered", rpcrdma.Header{Lists: with(offered(4, 0), func(l *chunks.Lists) { l.HasReply = true })}, results(4), chunks.ErrReturned, nil},
		{"read list", rpcrdma.Header{Lists: with(offered(4, 0), func(l *chunks.Lists) {
			l.Read = []chunks.ReadSegment{{Position: 44, Segment: segment(1, 4, 0)}}
		})}, results(4), rpcrdma.ErrReadList, nil},
		{"accept_stat 9", rpcrdma.Header{Lists: offered(0, 0)}, append(rpcReply(vectorXID)[:20], 0, 0, 0, 9), xdr.ErrRange, nil},
		{"cut RPC reply", rpcrdma.Header{Lists: offered(0, 0)}, results(4)[:20], xdr.ErrShort, nil},
		{"ERR_CHUNK", rpcrdma.Header{Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}, nil, &rpcrdma.RemoteError{Code: rpcrdma.ErrChunk}, nil},
		{"ERR_VERS", rpcrdma.Header{Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrVers, Low: 2, High: 3}, nil, &rpcrdma.RemoteError{rpcrdma.ErrVers, 2, 3}, nil},
		{"long reply without lists", rpcrdma.Header{Type: rpcrdma.MsgTypeNoMsg}, nil, rpcrdma.ErrNoReplyChunk, nil},
		{"long reply by read", rpcrdma.Header{Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{
			Read: []chunks.ReadSegment{{Segment: segment(1, 4, 0)}},
		}}, nil, rpcrdma.ErrReadList, nil},

		{"unknown XID", rpcrdma.Header{XID: 1, Lists: offered(4, 0)}, results(4), nil, rpcrdma.ErrUnknownXID},
		{"XIDs differ", rpcrdma.Header{Lists: offered(4, 0)}, rpcReply(7), nil, rpcrdma.ErrXID},
		{"no RPC message", rpcrdma.Header{Lists: offered(4, 0)}, nil, nil, rpcrdma.ErrRPC},
		{"message type 2", rpcrdma.Header{Lists: offered(4, 0)}, []byte{1, 2, 3, 4, 0, 0, 0, 2}, nil, rpcrdma.ErrRPC},
		{"a call", rpcrdma.Header{}, rpcCall(vectorXID, 0), nil, rpcrdma.ErrDirection},
		{"MSGP", rpcrdma.Header{Type: rpcrdma.MsgTypeMsgP, Lists: offered(4, 0)}, results(4), nil, rpcrdma.ErrType},
		{"DONE", rpcrdma.Header{Type: rpcrdma.MsgTypeDone}, nil, nil, rpcrdma.ErrType},
		{"version 2", rpcrdma.Header{Vers: 2, Lists: offered(4, 0)}, results(4), nil, rpcrdma.ErrVersion},
		{"unknown error code", rpcrdma.Header{Type: rpcrdma.MsgTypeError, Err: 9}, nil, nil, rpcrdma.ErrCodeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) { checkReply(t, c) })
	}
}

func checkReply(t *testing.T, c readReply) {
	r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Binding: chunks.NFSv3}))
	call := readCall(t, r)
	if _, _, err := r.AppendCall(nil, call); err != nil {
		t.Fatal(err)
	}
	if c.h.XID == 0 {
		c.h.XID = vectorXID
	}
	if c.h.Vers == 0 {
		c.h.Vers = rpcrdma.Version
	}
	c.h.Credit = 7
	got, err := r.Receive(append(c.h.Append(nil), c.rpc...))
	if c.drop != nil {
		if got != nil || !errors.Is(err, c.drop) || r.InFlight() != 1 {
			t.Fatalf("call %v, %v; want it dropped: %v", got, err, c.drop)
		}
		// It may cost the call, but not the credit, in whichever order the caller gives up: but a Send of another call,
		// or a call the other way, tells nothing about this one.
		mine := c.h.XID == vectorXID && !errors.Is(c.drop, rpcrdma.ErrDirection)
		if still := r.Cancel(call); still == mine || (r.InFlight() == 0) != mine {
			t.Fatalf("cancelled: outstanding %v, %d in flight", still, r.InFlight())
		}
		r = made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Binding: chunks.NFSv3}))
		call = readCall(t, r)
		if _, _, err := r.AppendCall(nil, call); err != nil {
			t.Fatal(err)
		}
		r.Cancel(call)
		if got, err := r.Receive(append(c.h.Append(nil), c.rpc...)); (got == call) != mine || !errors.Is(err, c.drop) {
			t.Fatalf("of a cancelled call: %v, %v", got, err)
		}
		return
	}
	if got != call || r.InFlight() != 0 {
		t.Fatalf("not answered: %v", err)
	}
	if r.Available() != 7 {
		t.Errorf("%d credits, want the grant of 7 in force", r.Available())
	}
	if re, ok := c.want.(*rpcrdma.RemoteError); ok {
		if e, ok := errors.AsType[*rpcrdma.RemoteError](got.Result.Err); !ok || *e != *re {
			t.Errorf("error %v, want %v", got.Result.Err, re)
		}
		return
	}
	if !errors.Is(got.Result.Err, c.want) {
		t.Errorf("error %v, want %v", got.Result.Err, c.want)
	}
	if c.want != nil {
		if _, ok := errors.AsType[*rpcrdma.ProtocolError](got.Result.Err); !ok {
			t.Errorf("error is a %T", got.Result.Err)
		}
	}
}

// TestRequesterNoBinding: without a binding the chunks are believed.
func TestRequesterNoBinding(t *testing.T) {
	r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{}))
	c := readCall(t, r)
	if _, _, err := r.AppendCall(nil, c); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Receive(unhex(t, vectors.readReply)); err != nil {
		t.Fatal(err)
	}
	if res := c.Result; res.Err != nil || !res.Placed || res.ItemLen != 5000 || res.ItemPos != -1 {
		t.Errorf("result = %+v", res)
	}
}

func TestCheckReply(t *testing.T) {
	for _, c := range []struct {
		name string
		used uint32
		mem  []byte
		want error
	}{
		{"a reply", 32, append(rpcReply(9), "results!junk"...), nil},
		{"memory too small", 40, rpcReply(9), rpcrdma.ErrMemory},
		{"memory one octet too small", 32, append(rpcReply(9), "results!"...)[:31], rpcrdma.ErrMemory},
		{"another XID", 24, rpcReply(8), rpcrdma.ErrXID},
		{"a call", 40, rpcCall(9, 0), rpcrdma.ErrDirection},
		{"cut", 20, rpcReply(9), xdr.ErrShort},
		{"too short", 4, rpcReply(9), rpcrdma.ErrRPC},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{}))
			call := &rpcrdma.Call{XID: 9, Message: chunks.Message{Head: rpcCall(9, 0)}, MaxReply: 2000}
			if err := errors.Join(r.Plan(call), r.Begin(call)); err != nil || call.Plan.Reply != 2000 {
				t.Fatalf("plan %+v, %v", call.Plan, err)
			}
			call.Memory.Reply = chunks.WriteChunk{segment(1, 2000, 0)}
			if _, _, err := r.AppendCall(nil, call); err != nil {
				t.Fatal(err)
			}
			h := rpcrdma.Header{XID: 9, Vers: 1, Credit: 1, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{
				HasReply: true, Reply: chunks.WriteChunk{segment(1, c.used, 0)},
			}}
			if _, err := r.Receive(h.Append(nil)); err != nil {
				t.Fatal(err)
			}
			if res := call.Result; res.Err != nil || !res.Long || res.ReplyLen != int(c.used) {
				t.Fatalf("result = %+v", res)
			}
			err := r.CheckReply(call, c.mem)
			if !errors.Is(err, c.want) || !errors.Is(call.Result.Err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err == nil && string(call.Result.Results) != "results!" {
				t.Errorf("results = %q", call.Result.Results)
			}
		})
	}
}

// TestMsgWithUsedReplyChunk: octets inline and in the reply chunk make no sense;
// an offered chunk that comes back unused is how a short reply looks.
func TestMsgWithUsedReplyChunk(t *testing.T) {
	for used, want := range map[uint32]error{0: nil, 4: chunks.ErrReturned} {
		r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{}))
		c := &rpcrdma.Call{XID: 9, Message: chunks.Message{Head: rpcCall(9, 0)}, MaxReply: 2000}
		_ = r.Plan(c)
		c.Memory.Reply = chunks.WriteChunk{segment(1, 2000, 0)}
		if _, _, err := r.AppendCall(nil, c); err != nil {
			t.Fatal(err)
		}
		_ = r.Begin(c)
		h := rpcrdma.Header{XID: 9, Vers: 1, Lists: chunks.Lists{HasReply: true, Reply: chunks.WriteChunk{segment(1, used, 0)}}}
		if _, err := r.Receive(append(h.Append(nil), rpcReply(9)...)); err != nil || !errors.Is(c.Result.Err, want) {
			t.Errorf("%d octets used: %v, %v; want %v", used, err, c.Result.Err, want)
		}
	}
}
