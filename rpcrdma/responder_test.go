package rpcrdma_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// words sets 32-bit words by offset.
func words(t testing.TB, hex string, set map[int]uint32) []byte {
	b := unhex(t, hex)
	for off, w := range set {
		binary.BigEndian.PutUint32(b[off:], w)
	}
	return b
}

// callWith returns a Send with the given read list before arguments of a
// procedure.
func callWith(proc uint32, read []chunks.ReadSegment, args ...uint32) []byte {
	h := rpcrdma.Header{XID: 9, Vers: 1, Credit: 1, Lists: chunks.Lists{Read: read}}
	b := append(h.Append(nil), rpcCall(9, proc)...)
	for _, w := range args {
		b = xdr.AppendUint32(b, w)
	}
	return b
}

func readAt(pos uint32, lengths ...uint32) (r []chunks.ReadSegment) {
	for _, n := range lengths {
		r = append(r, chunks.ReadSegment{Position: pos, Segment: segment(0xa1, n, 0x1000)})
	}
	return r
}

// writeArgs are WRITE arguments with a handle of 4 octets: the data begin at
// octet 40 + 28 = 68.
func writeArgs(count uint32) []uint32 { return []uint32{4, 0x01020304, 0, 0, count, 2, count} }

func TestResponderVerdicts(t *testing.T) {
	const vers, proc, xid, rpcXID, mtype, rpcvers, prog = 4, 12, 0, 28, 32, 36, 40
	for _, c := range []struct {
		name string
		send []byte
		want rpcrdma.Verdict
		how  rpcrdma.Action // for Answer; ActDrop: GARBAGE_ARGS
		err  error
	}{
		{"6.1 NULL", unhex(t, vectors.null), rpcrdma.Dispatch, 0, nil},
		{"6.3 WRITE", unhex(t, vectors.write), rpcrdma.Pull, 0, nil},
		{"6.4 READ", unhex(t, vectors.read), rpcrdma.Dispatch, 0, nil},
		{"6.7 long call", unhex(t, vectors.longCall), rpcrdma.Pull, 0, nil},
		{"6.13 CCP call", unhex(t, vectors.ccpCall), rpcrdma.Dispatch, 0, nil},
		{"6.3 with Position 98", words(t, vectors.write, map[int]uint32{20: 98, 44: 98}), rpcrdma.Answer, rpcrdma.ActErrChunk, chunks.ErrPosition},
		{"6.1 with version 2", words(t, vectors.null, map[int]uint32{vers: 2}), rpcrdma.Answer, rpcrdma.ActErrVers, rpcrdma.ErrVersion},
		{"6.1 with other XID in the header", words(t, vectors.null, map[int]uint32{xid: 5}), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrXID},
		{"6.1 with other XID in the RPC", words(t, vectors.null, map[int]uint32{rpcXID: 5}), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrXID},
		{"6.1 cut to 24 octets", unhex(t, vectors.null)[:24], rpcrdma.Drop, 0, rpcrdma.ErrRunt},
		{"6.1 with type 9", words(t, vectors.null, map[int]uint32{proc: 9}), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrProc},
		{"6.10 DONE", unhex(t, vectors.done), rpcrdma.Drop, 0, rpcrdma.ErrType},
		{"6.9 MSGP", unhex(t, vectors.msgp), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrType},
		{"6.16 MSGP", unhex(t, vectors.msgpWrite), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrType},
		{"6.11 RDMA_ERROR of version 2", unhex(t, vectors.errVers), rpcrdma.Drop, 0, rpcrdma.ErrType},
		{"6.12 RDMA_ERROR", unhex(t, vectors.errChunk), rpcrdma.Drop, 0, rpcrdma.ErrType},
		{"6.2 a reply", unhex(t, vectors.nullReply), rpcrdma.Drop, 0, rpcrdma.ErrDirection},
		{"6.8 a long reply", unhex(t, vectors.longReply), rpcrdma.Answer, rpcrdma.ActErrChunk, chunks.ErrNoStream},
		{"message type 2", words(t, vectors.null, map[int]uint32{mtype: 2}), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrRPC},
		{"RPC header cut", unhex(t, vectors.null)[:64], rpcrdma.Answer, rpcrdma.ActErrChunk, xdr.ErrShort},
		{"RPC message of 4 octets", unhex(t, vectors.null)[:32], rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrRPC},
		{"no RPC message", unhex(t, vectors.null)[:28], rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrRPC},
		{"RPC version 3", words(t, vectors.null, map[int]uint32{rpcvers: 3}), rpcrdma.Dispatch, 0, nil},
		{"RPC version 3 with chunks", words(t, vectors.write, map[int]uint32{84: 3}), rpcrdma.Dispatch, 0, nil},
		{"another program with a read chunk", words(t, vectors.write, map[int]uint32{88: 100005}), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrNotEligible},
		{"another program without chunks", words(t, vectors.null, map[int]uint32{prog: 100005}), rpcrdma.Dispatch, 0, nil},
		{"NOMSG with empty lists", words(t, vectors.null, map[int]uint32{proc: 1}), rpcrdma.Answer, rpcrdma.ActErrChunk, chunks.ErrNoStream},
		{"NOMSG with an ordinary chunk only", words(t, vectors.write, map[int]uint32{proc: 1}), rpcrdma.Answer, rpcrdma.ActErrChunk, chunks.ErrNoStream},
		{"MSG with a Position 0 chunk", words(t, vectors.write, map[int]uint32{20: 0, 44: 0}), rpcrdma.Answer, rpcrdma.ActErrChunk, chunks.ErrPosition},
		{"GETATTR with a read chunk", callWith(1, readAt(44, 4), 4, 1), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrNotEligible},
		{"WRITE, exact", callWith(7, readAt(68, 7), writeArgs(7)...), rpcrdma.Pull, 0, nil},
		{"WRITE, padded", callWith(7, readAt(68, 8), writeArgs(7)...), rpcrdma.Pull, 0, nil},
		{"WRITE, pad apart", callWith(7, readAt(68, 7, 1), writeArgs(7)...), rpcrdma.Pull, 0, nil},
		{"WRITE, too short", callWith(7, readAt(68, 6), writeArgs(7)...), rpcrdma.Answer, rpcrdma.ActDrop, rpcrdma.ErrItemLength},
		{"WRITE, too long", callWith(7, readAt(68, 9), writeArgs(7)...), rpcrdma.Answer, rpcrdma.ActDrop, rpcrdma.ErrItemLength},
		{"WRITE, 4 octets of pad", callWith(7, readAt(68, 8, 4), writeArgs(8)...), rpcrdma.Answer, rpcrdma.ActDrop, rpcrdma.ErrItemLength},
		{"WRITE, count 2^32-1", callWith(7, readAt(68, 8), writeArgs(0xffffffff)...), rpcrdma.Answer, rpcrdma.ActDrop, rpcrdma.ErrArgs},
		{"WRITE of nothing by chunk", callWith(7, readAt(68, 0), writeArgs(0)...), rpcrdma.Pull, 0, nil},
		{"WRITE, the handle reduced", callWith(7, readAt(44, 4), writeArgs(8)...), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrNotEligible},
		{"WRITE, chunk behind the data", callWith(7, readAt(72, 4), append(writeArgs(4), 0)...), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrNotEligible},
		{"WRITE, two chunks", callWith(7, append(readAt(44, 4), readAt(68, 4)...), writeArgs(4)...), rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrNotEligible},
		{"WRITE, arguments cut", callWith(7, readAt(44, 4), 4), rpcrdma.Answer, rpcrdma.ActDrop, rpcrdma.ErrArgs},
		{"WRITE, beyond the message", callWith(7, readAt(80, 4), writeArgs(4)...), rpcrdma.Answer, rpcrdma.ActErrChunk, chunks.ErrBeyond},
		{"WRITE, 2^32-1 octets", callWith(7, readAt(68, 0xffffffff), writeArgs(4)...), rpcrdma.Answer, rpcrdma.ActErrChunk, chunks.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newResponder(rpcrdma.ResponderConfig{Credits: 16})
			var in rpcrdma.Inbound
			if got := r.Receive(c.send, &in); got != c.want || !errors.Is(in.Err, c.err) {
				t.Fatalf("%v, %v; want %v, %v", got, in.Err, c.want, c.err)
			}
			switch c.want {
			case rpcrdma.Answer:
				checkAnswer(t, r, &in, c.send, c.how)
			case rpcrdma.Pull:
				if in.Layout.Total == 0 {
					t.Error("nothing to pull")
				}
			case rpcrdma.Drop:
				if r.Credits().Serving() != 0 {
					t.Errorf("%d being served", r.Credits().Serving())
				}
			case rpcrdma.Dispatch:
				if in.RPC.XID != in.Header.XID {
					t.Errorf("%+v", in.RPC)
				}
			}
			if err := r.Credits().Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPulledVerdicts: what is found out of a long call when its stream is here: whether it is a call, and this one, and
// whether what it has in another chunk may be there (RFC 8166 Section 3.5.3 and 6.1).
func TestPulledVerdicts(t *testing.T) {
	call := func(proc uint32, args ...uint32) []byte { return append(rpcCall(9, proc), u32s(args...)...) }
	data := func(msg []byte) []byte { return append(msg, ramp(8, 1)...) }
	for _, c := range []struct {
		name string
		msg  []byte
		pos  uint32 // of 8 octets that have a chunk of their own; 0: there are none
		want rpcrdma.Verdict
		how  rpcrdma.Action // as in TestResponderVerdicts
		err  error
	}{
		{"a call", call(0), 0, rpcrdma.Dispatch, 0, nil},
		{"RPC version 3", u32s(9, 0, 3, 0, 0, 0, 0, 0, 0, 0), 0, rpcrdma.Dispatch, 0, nil},
		{"another XID", rpcCall(5, 0), 0, rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrXID},
		{"a reply", rpcReply(9), 0, rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrDirection},
		{"message type 2", u32s(9, 2, 2, 0, 0, 0, 0, 0, 0, 0), 0, rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrRPC},
		{"4 octets", call(0)[:4], 0, rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrRPC},
		{"RPC header cut", call(0)[:36], 0, rpcrdma.Answer, rpcrdma.ActErrChunk, xdr.ErrShort},
		{"WRITE", data(call(7, writeArgs(8)...)), 68, rpcrdma.Dispatch, 0, nil},
		{"WRITE, RPC version 3", data(append(u32s(9, 0, 3), call(7, writeArgs(9)...)[12:]...)), 68, rpcrdma.Dispatch, 0, nil},
		{"WRITE, another count", data(call(7, writeArgs(9)...)), 68, rpcrdma.Answer, rpcrdma.ActDrop, rpcrdma.ErrItemLength},
		{"WRITE, behind the data", data(call(7, append(writeArgs(4), 0)...)), 72, rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrNotEligible},
		{"GETATTR", data(call(1, 8)), 44, rpcrdma.Answer, rpcrdma.ActErrChunk, rpcrdma.ErrNotEligible},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newResponder(rpcrdma.ResponderConfig{Credits: 16})
			h := rpcrdma.Header{XID: 9, Vers: 1, Credit: 1, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: readAt(0, uint32(len(c.msg)))}}
			if c.pos > 0 {
				h.Read = append(readAt(0, uint32(len(c.msg))-8), readAt(c.pos, 8)...)
			}
			var in rpcrdma.Inbound
			send := h.Append(nil)
			if v := r.Receive(send, &in); v != rpcrdma.Pull {
				t.Fatal(v, in.Err)
			}
			if v := r.Pulled(&in, c.msg); v != c.want || !errors.Is(in.Err, c.err) {
				t.Fatalf("%v, %v; want %v, %v", v, in.Err, c.want, c.err)
			}
			if c.want == rpcrdma.Answer {
				checkAnswer(t, r, &in, send, c.how)
			}
			if err := r.Credits().Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkAnswer looks at the octets of a refusal: XID and version echoed, the
// grant, and the code.
func checkAnswer(t *testing.T, r *rpcrdma.Responder, in *rpcrdma.Inbound, send []byte, how rpcrdma.Action) {
	t.Helper()
	post(r)
	asked := binary.BigEndian.Uint32(send[8:])
	want := bytes.Clone(send[:8])
	want = xdr.AppendUint32(want, min(asked, 16))
	switch how {
	case rpcrdma.ActErrChunk:
		want = append(want, unhex(t, "00000004 00000002")...)
	case rpcrdma.ActErrVers:
		want = append(want, unhex(t, "00000004 00000001 00000001 00000001")...)
	default: // GARBAGE_ARGS
		want = append(want, make([]byte, 16)...)
		want = append(want, want[:4]...)
		want = append(want, unhex(t, "00000001 00000000 0000000000000000 00000004")...)
	}
	if got := r.AppendAnswer([]byte("x"), in); !bytes.Equal(got[1:], want) {
		t.Errorf("answer\n got %x\nwant %x", got[1:], want)
	}
	if r.Credits().Serving() != 0 {
		t.Error("the call still counts as served")
	}
}

// TestGarbageArgsReturnsChunks: GARBAGE_ARGS returns the chunks unused, and gives way to ERR_CHUNK
// if they are too many to be returned in one Send.
func TestGarbageArgsReturnsChunks(t *testing.T) {
	for segs, wantType := range map[int]rpcrdma.MsgType{2: rpcrdma.MsgTypeMsg, 100: rpcrdma.MsgTypeError} {
		h := rpcrdma.Header{XID: 9, Vers: 1, Credit: 1, Lists: chunks.Lists{Read: readAt(68, 6), HasReply: true}}
		h.Write = []chunks.WriteChunk{newMemory(t).offer(nil, make([]byte, 1000), segs)}
		h.Reply = newMemory(t).offer(nil, make([]byte, 10), 1)
		send := append(h.Append(nil), rpcCall(9, 7)...)
		for _, w := range writeArgs(7) {
			send = xdr.AppendUint32(send, w)
		}
		r := newResponder(rpcrdma.ResponderConfig{})
		var in rpcrdma.Inbound
		if v := r.Receive(send, &in); v != rpcrdma.Answer {
			t.Fatal(v, in.Err)
		}
		post(r)
		b := r.AppendAnswer(nil, &in)
		if len(b) > 1024 {
			t.Errorf("an answer of %d octets", len(b))
		}
		var got rpcrdma.Header
		n, err := got.Decode(b, nil)
		if err != nil || got.Type != wantType {
			t.Fatalf("answer %v, %v; want %v", got.Type, err, wantType)
		}
		if wantType == rpcrdma.MsgTypeMsg {
			if len(got.Write) != 1 || len(got.Write[0]) != segs || got.Write[0].Room() != 0 || !got.HasReply || got.Reply.Room() != 0 {
				t.Errorf("returned %+v, want everything unused", got.Lists)
			}
			d := xdr.NewDecoder(b[n:])
			var rpc xdr.ReplyHeader
			if err := rpc.Parse(&d); err != nil || rpc.Accept != xdr.GarbageArgs {
				t.Errorf("%+v, %v", rpc, err)
			}
		}
	}
}

func TestInboundRoom(t *testing.T) {
	r := newResponder(rpcrdma.ResponderConfig{})
	var in rpcrdma.Inbound
	r.Receive(unhex(t, vectors.read), &in)
	if n, ok := in.Room(0); n != 8192 || !ok {
		t.Errorf("room = %d, %v", n, ok)
	}
	if n, ok := in.Room(1); n != 0 || ok {
		t.Errorf("room of a chunk that is not there = %d, %v", n, ok)
	}
}
