package rpcrdma_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// compat is a requester and a responder of one profile, for one row of the table of what
// has changed from RFC 5666 to RFC 8166.
type compat struct {
	*testing.T
	profile rpcrdma.Profile
	q       *rpcrdma.Requester
	p       *rpcrdma.Responder
	in      rpcrdma.Inbound
	out     rpcrdma.Reply
}

func newCompat(t *testing.T, p rpcrdma.Profile) *compat {
	return &compat{
		T: t, profile: p,
		q: made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Profile: p, Reads: true, Binding: chunks.NFSv3})),
		p: newResponder(rpcrdma.ResponderConfig{Profile: p, Reads: true}),
	}
}

// receive gives the responder a Send, whose header has the XID 5.
func (c *compat) receive(h rpcrdma.Header, msg ...byte) rpcrdma.Verdict {
	h.XID, h.Vers = 5, max(h.Vers, 1)
	v := c.p.Receive(append(h.Append(nil), msg...), &c.in)
	post(c.p)
	return v
}

// want asserts what is done about a Send.
func (c *compat) want(what string, got rpcrdma.Verdict, want rpcrdma.Verdict) {
	c.Helper()
	if got != want {
		c.Errorf("%s: %v (%v), want %v", what, got, c.in.Err, want)
	}
}

// refusal is the answer to what was received last.
func (c *compat) refusal() (h rpcrdma.Header) {
	if _, err := h.Decode(c.p.AppendAnswer(nil, &c.in), nil); err != nil {
		c.Error(err)
	}
	return h
}

// reply answers an outstanding READ, with a sink of 800 octets and a reply chunk of 2000,
// and returns its result and why it was dropped.
func (c *compat) reply(h rpcrdma.Header, msg ...byte) (*rpcrdma.Result, error) {
	c.Helper()
	c.q.Drain(func(*rpcrdma.Call) {})
	call := &rpcrdma.Call{XID: 5, Prog: 100003, Vers: 3, Proc: 6, Sink: 800, MaxReply: 2000, Message: chunks.Message{Head: rpcCall(5, 6)}}
	call.Memory = rpcrdma.Memory{Sink: oneSegment(1, 800), Reply: oneSegment(2, 2000)}
	if err := errors.Join(c.q.Plan(call), c.q.Begin(call)); err != nil {
		c.Fatal(err)
	}
	if _, _, err := c.q.AppendCall(nil, call); err != nil {
		c.Fatal(err)
	}
	if h.XID == 0 {
		h.XID = 5
	}
	h.Vers = max(h.Vers, 1)
	got, why := c.q.Receive(append(h.Append(nil), msg...))
	if got == nil {
		return nil, why
	}
	return &call.Result, nil
}

func oneSegment(h chunks.Handle, n uint32) chunks.WriteChunk {
	return chunks.WriteChunk{{Handle: h, Length: n}}
}

// readOf is a READ reply of n octets whose data are not inline.
func readOf(n uint32) []byte { return append(rpcReply(5), u32s(0, 0, n, 1, n)...) }

func TestCompat(t *testing.T) {
	for _, row := range []struct {
		spec string
		test func(c *compat)
	}{
		{spec: "rpcrdma 14 extras", test: compatExtras},
		{spec: "rpcrdma 14 inline", test: func(c *compat) {
			if q, p := c.q.Config(), c.p.Config(); q.SendSize != 1024 || q.RecvSize != 1024 || p.SendSize != 1024 {
				c.Errorf("%d, %d, %d", q.SendSize, q.RecvSize, p.SendSize)
			}
			c.want("4096 octets", c.receive(rpcrdma.Header{}, append(rpcCall(5, 0), make([]byte, 4028)...)...), rpcrdma.Dispatch)
		}},
		{spec: "rpcrdma 14 eligible", test: func(c *compat) {
			c.want("a chunk in GETATTR", c.receive(rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 4)}}, append(rpcCall(5, 1), u32s(4)...)...), rpcrdma.Answer)
			other := append(u32s(5, 0, 2, anyProgram, 1, 1, 0, 0, 0, 0), u32s(4)...)
			c.want("in a program without a binding", c.receive(rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 4)}}, other...),
				map[rpcrdma.Profile]rpcrdma.Verdict{rpcrdma.RFC8166: rpcrdma.Answer, rpcrdma.RFC5666: rpcrdma.Pull}[c.profile])
			c.want("in the RPC header", c.receive(rpcrdma.Header{Lists: chunks.Lists{Read: readAt(40, 4)}}, other...), rpcrdma.Answer)
			c.receive(rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 4)}}, other...)
			if c.profile == rpcrdma.RFC5666 {
				c.want("its count differs", c.p.Pulled(&c.in, append(append(other[:40:40], u32s(9)...), 1, 2, 3, 4)), rpcrdma.Answer)
			}
		}},
		{spec: "rpcrdma 14 write-roundup", test: func(c *compat) {
			c.receive(rpcrdma.Header{Lists: chunks.Lists{Write: []chunks.WriteChunk{oneSegment(1, 8)}}}, rpcCall(5, 6)...)
			c.p.Reply(nil, &c.in, &chunks.Message{Head: rpcReply(5), Body: u32s(0, 0, 5, 1, 5), Items: []chunks.Item{{Pos: 44, Data: make([]byte, 5)}}}, &c.out)
			if n := c.in.Header.Write[0][0].Length; n != 5 {
				c.Errorf("returned as %d", n)
			}
			for _, n := range []uint32{5, 8} {
				res, _ := c.reply(rpcrdma.Header{Lists: chunks.Lists{Write: []chunks.WriteChunk{oneSegment(1, n)}}}, readOf(5)...)
				if res == nil || res.Err != nil || res.ItemLen != 5 {
					c.Errorf("%d octets came back: %+v", n, res)
				}
			}
		}},
		{spec: "rpcrdma 14 position", test: func(c *compat) {
			for _, pos := range []uint32{0, 50, 51, 53} {
				c.want("Position", c.receive(rpcrdma.Header{Lists: chunks.Lists{Read: readAt(pos, 4)}}, append(rpcCall(5, 7), u32s(writeArgs(4)...)...)...), rpcrdma.Answer)
			}
		}},
		{spec: "rpcrdma 14 credits-0", test: func(c *compat) {
			c.receive(rpcrdma.Header{Credit: 0}, rpcCall(5, 0)...)
			c.p.Reply(nil, &c.in, &chunks.Message{Head: rpcReply(5)}, &c.out)
			if credit := binary.BigEndian.Uint32(c.out.Head[8:]); credit != 1 {
				c.Errorf("granted %d", credit)
			}
			if c.reply(rpcrdma.Header{Credit: 0}, readOf(0)...); c.q.Window() != 1 {
				c.Errorf("a grant of 0 is a window of %d", c.q.Window())
			}
		}},
		{spec: "rpcrdma 14 error-version", test: func(c *compat) {
			c.want("version 7", c.receive(rpcrdma.Header{Vers: 7}, rpcCall(5, 0)...), rpcrdma.Answer)
			if h := c.refusal(); h.Vers != 7 || h.Err != rpcrdma.ErrVers || h.Low != 1 || h.High != 1 {
				c.Errorf("answered %+v", h)
			}
			for _, vers := range []uint32{1, 2, 9} {
				res, _ := c.reply(rpcrdma.Header{Vers: vers, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}, make([]byte, 8)...)
				if e, ok := errors.AsType[*rpcrdma.RemoteError](res.Err); !ok || e.Code != rpcrdma.ErrChunk {
					c.Errorf("an RDMA_ERROR of version %d: %v", vers, res.Err)
				}
			}
		}},
		{spec: "rpcrdma 14 error-sender", test: func(c *compat) {
			c.want("an RDMA_ERROR", c.receive(rpcrdma.Header{Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}), rpcrdma.Drop)
			if res, why := c.reply(rpcrdma.Header{XID: 6}); res != nil || why == nil {
				c.Error("a bad reply is not dropped")
			}
		}},
		{spec: "rpcrdma 14 error-union", test: func(c *compat) {
			if res, why := c.reply(rpcrdma.Header{Type: rpcrdma.MsgTypeError, Err: 3}, make([]byte, 32)...); res != nil || !errors.Is(why, rpcrdma.ErrCodeUnknown) {
				c.Errorf("%+v, %v", res, why)
			}
		}},
		{spec: "rpcrdma 14 bad-header", test: func(c *compat) {
			c.want("a list cut off", c.receive(rpcrdma.Header{Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{HasReply: true}}), rpcrdma.Answer)
			if h := c.refusal(); h.Err != rpcrdma.ErrChunk {
				c.Errorf("answered %+v", h)
			}
			res, _ := c.reply(rpcrdma.Header{}, xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 5, Accept: xdr.GarbageArgs})...)
			if res.Err != nil || res.RPC.Accept != xdr.GarbageArgs {
				c.Errorf("GARBAGE_ARGS: %+v", res)
			}
		}},
		{spec: "rpcrdma 14 short", test: func(c *compat) {
			for n := range 28 {
				send := (&rpcrdma.Header{XID: 5, Vers: 1}).Append(nil)[:n]
				c.want("a short Send", c.p.Receive(send, &c.in), rpcrdma.Drop)
				post(c.p)
			}
			if _, err := (&rpcrdma.Header{}).Decode((&rpcrdma.Header{XID: 5, Vers: 1, Type: rpcrdma.MsgTypeDone}).Append(nil), nil); err != nil {
				c.Error(err)
			}
			c.want("RDMA_MSGP of 28 octets", c.p.Receive(u32s(5, 1, 1, 2, 0, 0, 0), &c.in), rpcrdma.Answer)
		}},
		{spec: "rpcrdma 14 gss", test: func(c *compat) {
			call := &rpcrdma.Call{XID: 5, Prog: 100003, Vers: 3, Proc: 7, Message: chunks.Message{Head: rpcCall(5, 7), Body: make([]byte, 8000)}}
			if err := c.q.Plan(call); err != nil || call.Plan.Form != rpcrdma.FormLong || call.Plan.Arg || call.Plan.Stream != 8040 {
				c.Errorf("%+v, %v", call.Plan, err)
			}
		}},
		{spec: "rpcrdma 14 unused-write", test: func(c *compat) {
			c.receive(rpcrdma.Header{Lists: chunks.Lists{Write: []chunks.WriteChunk{oneSegment(1, 8), oneSegment(2, 8)}}}, rpcCall(5, 1)...)
			c.p.Reply(nil, &c.in, &chunks.Message{Head: rpcReply(5), Body: u32s(70)}, &c.out)
			g := oParse(c.out.Head)
			if len(g.write) != 2 || g.write[0][0].length != 0 || g.write[1][0].length != 0 {
				c.Errorf("%+v", g)
			}
			stale := append(rpcReply(5), u32s(70, 0)...)
			for _, h := range []rpcrdma.Header{{}, {Lists: chunks.Lists{Write: []chunks.WriteChunk{oneSegment(1, 0)}}}} {
				if res, _ := c.reply(h, stale...); res.Err != nil || res.Placed {
					c.Errorf("%+v: %+v", h, res)
				}
			}
		}},
		{spec: "rpcrdma 14 reply-chunk", test: func(c *compat) {
			c.receive(rpcrdma.Header{Lists: chunks.Lists{HasReply: true, Reply: oneSegment(9, 100)}}, rpcCall(5, 1)...)
			c.p.Reply(nil, &c.in, &chunks.Message{Head: rpcReply(5), Body: u32s(70)}, &c.out)
			if g := oParse(c.out.Head); !g.hasReply || len(g.reply) != 1 || g.reply[0].length != 0 {
				c.Errorf("%+v", g)
			}
			stale := append(rpcReply(5), u32s(70, 0)...)
			for _, h := range []rpcrdma.Header{{}, {Lists: chunks.Lists{HasReply: true, Reply: oneSegment(2, 0)}}} {
				if res, _ := c.reply(h, stale...); res.Err != nil {
					c.Errorf("%+v: %v", h, res.Err)
				}
			}
		}},
		{spec: "rpcrdma 14 backward", test: func(c *compat) {
			c.want("a reply at a Responder", c.receive(rpcrdma.Header{}, rpcReply(5)...), rpcrdma.Drop)
			if res, why := c.reply(rpcrdma.Header{}, rpcCall(5, 0)...); res != nil || !errors.Is(why, rpcrdma.ErrDirection) {
				c.Errorf("a call at a Requester: %+v, %v", res, why)
			}
		}},
	} {
		t.Run(row.spec, func(t *testing.T) {
			for _, p := range []rpcrdma.Profile{rpcrdma.RFC8166, rpcrdma.RFC5666} {
				t.Run(p.String(), func(t *testing.T) { row.test(newCompat(t, p)) })
			}
		})
	}
}

// compatExtras: what only RFC 5666 has.
func compatExtras(c *compat) {
	by := func(old, now rpcrdma.Verdict) rpcrdma.Verdict {
		return map[rpcrdma.Profile]rpcrdma.Verdict{rpcrdma.RFC8166: old, rpcrdma.RFC5666: now}[c.profile]
	}
	c.want("RDMA_MSGP", c.receive(rpcrdma.Header{Type: rpcrdma.MsgTypeMsgP, Align: 16, Thresh: 100}, rpcCall(5, 0)...), by(rpcrdma.Answer, rpcrdma.Dispatch))
	c.want("RDMA_DONE of nothing", c.receive(rpcrdma.Header{Type: rpcrdma.MsgTypeDone}), rpcrdma.Drop)

	large := &chunks.Message{Head: rpcReply(5), Body: make([]byte, 5000)}
	c.want("a call", c.receive(rpcrdma.Header{}, rpcCall(5, 16)...), rpcrdma.Dispatch)
	c.p.Reply(nil, &c.in, large, &c.out)
	if exposed := len(c.out.Expose) == 1; exposed != (c.profile == rpcrdma.RFC5666) || exposed != (c.out.Err == nil) {
		c.Errorf("a reply that fits nowhere: %+v", c.out)
	}
	if c.profile == rpcrdma.RFC5666 {
		if !c.p.Expose(&c.out) {
			c.Error("not admitted")
		}
		c.want("its RDMA_DONE", c.receive(rpcrdma.Header{Type: rpcrdma.MsgTypeDone}), rpcrdma.Done)
		c.want("its RDMA_DONE again", c.receive(rpcrdma.Header{Type: rpcrdma.MsgTypeDone}), rpcrdma.Drop)
	}

	res, _ := c.reply(rpcrdma.Header{Lists: chunks.Lists{Read: []chunks.ReadSegment{{Position: 44, Segment: chunks.Segment{Length: 5000}}}}}, readOf(5000)...)
	done, due := c.q.AppendDone(nil)
	if c.profile == rpcrdma.RFC8166 && (!errors.Is(res.Err, rpcrdma.ErrReadList) || due) || c.profile == rpcrdma.RFC5666 && (res.Err != nil || !res.Read || due) {
		c.Errorf("a reply with a read list: %+v, RDMA_DONE %x", res, done)
	}
	if call := c.q.Lookup(5); c.profile == rpcrdma.RFC5666 {
		if call == nil || c.q.Pulled(call, nil) == nil {
			c.Error("a reply that is not read succeeds")
		}
		if done, due = c.q.AppendDone(nil); !due || len(done) != 16 {
			c.Errorf("RDMA_DONE %x", done)
		}
	}
	res, why := c.reply(rpcrdma.Header{Type: rpcrdma.MsgTypeMsgP, Align: 16, Thresh: 100}, append(rpcReply(5), u32s(70, 0)...)...)
	if (res != nil) != (c.profile == rpcrdma.RFC5666) {
		c.Errorf("a reply as RDMA_MSGP: %+v, %v", res, why)
	}
}
