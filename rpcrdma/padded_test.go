package rpcrdma_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// part of an XDR stream: an item, or octets of another kind.
type part struct {
	b    []byte
	item bool
}

// flat encodes parts as they are in an RDMA_MSG.
func flat(parts []part) (b []byte) {
	for _, p := range parts {
		if p.item {
			b = xdr.AppendOpaque(b, p.b)
		} else {
			b = append(b, p.b...)
		}
	}
	return b
}

// padded encodes parts as an RDMA_MSGP has them behind hdr octets; the item gone is in a
// read chunk. pos is where that belongs in the stream without pads.
func padded(parts []part, hdr, align, thresh, gone int) (b []byte, pos uint32) {
	pads := 0
	for i, p := range parts {
		if !p.item {
			b = append(b, p.b...)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(p.b)))
		if i == gone {
			pos = uint32(len(b) - pads)
			continue
		}
		if len(p.b) >= thresh {
			for (hdr+len(b))%align != 0 {
				b = append(b, 0xee) // "ignored"
				pads++
			}
		}
		b = append(b, p.b...)
		for len(b)%4 != 0 {
			b = append(b, 0xdd)
			if (len(b)-pads)%4 == 0 {
				break
			}
		}
	}
	return b, pos
}

func u32s(v ...uint32) (b []byte) {
	for _, w := range v {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// randomArgs are the arguments of some NFSv3 procedure, written down from RFC 1813.
func randomArgs(rng *rand.Rand) (proc uint32, parts []part) {
	item := func(most int) part { return part{ramp(rng.IntN(most), byte(rng.Uint32())), true} }
	fixed := func(n int) part { return part{make([]byte, n), false} }
	fh := item(65)
	switch proc = uint32(rng.IntN(22)); proc {
	case 0:
		return proc, nil
	case 3, 9, 11, 12, 13: // LOOKUP, MKDIR, MKNOD, REMOVE, RMDIR
		return proc, []part{fh, item(256)}
	case 7: // WRITE
		return proc, []part{fh, fixed(16), item(700)}
	case 8: // CREATE, EXCLUSIVE
		return proc, []part{fh, item(256), {u32s(2, 7, 7), false}}
	case 10: // SYMLINK with a mode and a time
		return proc, []part{fh, item(256), {u32s(1, 0o777, 0, 0, 0, 2, 5, 5, 1), false}, item(600)}
	case 14: // RENAME
		return proc, []part{fh, item(256), item(65), item(256)}
	case 15: // LINK
		return proc, []part{fh, item(65), item(256)}
	}
	return proc, []part{fh, fixed(4 * rng.IntN(8))}
}

// randomResults are the results of an NFSv3 procedure with items in them.
func randomResults(rng *rand.Rand) (proc uint32, parts []part) {
	item := func(most int) part { return part{ramp(rng.IntN(most), byte(rng.Uint32())), true} }
	fixed := func(n int) part { return part{make([]byte, n), false} }
	attr := part{u32s(0), false}
	if rng.IntN(2) == 0 {
		attr = part{append(u32s(1), make([]byte, 84)...), false}
	}
	ok := part{u32s(0), false}
	switch rng.IntN(6) {
	case 0:
		return 3, []part{ok, item(65), attr, attr}
	case 1:
		return 5, []part{ok, attr, item(800)}
	case 2:
		return 6, []part{ok, attr, fixed(8), item(800)}
	case 3:
		return 8, []part{ok, {u32s(1), false}, item(65), attr}
	case 4:
		return 6, []part{{u32s(70), false}, attr}
	}
	proc, parts = 16, []part{ok, attr, fixed(8)}
	plus := rng.IntN(2) == 0
	for range rng.IntN(4) {
		parts = append(parts, part{u32s(1), false}, fixed(8), item(100), fixed(8))
		if proc = 16; plus {
			proc = 17
			parts = append(parts, attr, part{u32s(1), false}, item(65))
		}
	}
	if plus {
		proc = 17
	}
	return proc, append(parts, part{u32s(0, 1), false})
}

// shape is a random alignment and threshold.
func shape(rng *rand.Rand) (align, thresh int) {
	return 4 << rng.IntN(8), rng.IntN(1 + 4<<rng.IntN(8))
}

// TestPaddedCalls: whatever alignment and threshold a peer has chosen, with every item
// that reaches it padded, the credential included, and one in a read chunk now and then,
// the call is what it was; and the longest item padded has not moved.
func TestPaddedCalls(t *testing.T) {
	rng := seeded(t)
	r := newResponder(rpcrdma.ResponderConfig{Profile: rpcrdma.RFC5666})
	var in rpcrdma.Inbound
	for range 3000 {
		align, thresh := shape(rng)
		proc, args := randomArgs(rng)
		cred := part{ramp(rng.IntN(90), 9), true}
		parts := append([]part{{u32s(5, 0, 2, 100003, 3, proc, 1), false}, cred, {u32s(0), false}, {nil, true}}, args...)
		h := rpcrdma.Header{XID: 5, Vers: 1, Credit: 1, Type: rpcrdma.MsgTypeMsgP, Align: uint32(align), Thresh: uint32(thresh)}
		gone, data := -1, []byte(nil)
		if (proc == 7 || proc == 10) && rng.IntN(3) == 0 {
			gone = len(parts) - 1
			data = parts[gone].b
			h.Read = []chunks.ReadSegment{{Segment: chunks.Segment{Length: uint32(len(data))}}}
		}
		stream, pos := padded(parts, h.Size(), align, thresh, gone)
		if gone >= 0 {
			h.Read[0].Position = pos
		}
		send := append(h.Append(nil), stream...)
		if gone < 0 {
			unpads(t, rpcrdma.UnpadCall, &h, send, parts)
		}
		longest := anchored(parts, thresh, gone)
		at := bytes.Index(send, longest)
		v := r.Receive(send, &in)
		post(r)
		if v == rpcrdma.Pull {
			buf := make([]byte, in.Layout.Total)
			in.Layout.Place(buf, in.Payload)
			for _, p := range in.Layout.Pulls {
				copy(buf[p.Dst:], data)
			}
			v = r.Pulled(&in, buf)
		}
		if want := flat(args); v != rpcrdma.Dispatch || !bytes.Equal(clean(in.Args, args), want) {
			t.Fatalf("proc %d, align %d, thresh %d: %v, %v\n got %x\nwant %x", proc, align, thresh, v, in.Err, in.Args, want)
		}
		if len(longest) > 40 && bytes.Index(send, longest) != at {
			t.Fatalf("the longest item was moved: %d octets, align %d, thresh %d", len(longest), align, thresh)
		}
	}
}

// unpads fails unless f takes the pads out of a Send, and leaves that alone.
func unpads(t *testing.T, f func(*rpcrdma.Header, []byte, chunks.Binding) ([]byte, error), h *rpcrdma.Header, send []byte, parts []part) {
	t.Helper()
	before := bytes.Clone(send)
	got, err := f(h, send, chunks.NFS)
	if err != nil || !bytes.Equal(clean(got, parts), flat(parts)) {
		t.Fatalf("%v\n got %x\nwant %x", err, got, flat(parts))
	}
	if !bytes.Equal(send, before) {
		t.Fatal("the Send was changed")
	}
}

// anchored returns the longest item that is padded, the first of them.
func anchored(parts []part, thresh, gone int) (longest []byte) {
	for i, p := range parts {
		if p.item && i != gone && len(p.b) >= thresh && len(p.b) > len(longest) {
			longest = p.b
		}
	}
	return longest
}

// clean zeroes the XDR pads of a stream: peers may send what they like there.
func clean(b []byte, parts []part) []byte {
	b, off := bytes.Clone(b), 0
	for _, p := range parts {
		if off += len(p.b); p.item {
			off += 4
			n := xdr.Pad(len(p.b))
			if off+n <= len(b) {
				clear(b[off : off+n])
			}
			off += n
		}
	}
	return b
}

// TestPaddedReplies is the same for replies.
func TestPaddedReplies(t *testing.T) {
	rng := seeded(t)
	for range 3000 {
		align, thresh := shape(rng)
		proc, res := randomResults(rng)
		parts := append([]part{{u32s(5, 1, 0, 0), false}, {ramp(4*rng.IntN(8), 3), true}, {u32s(0), false}}, res...)
		h := rpcrdma.Header{XID: 5, Vers: 1, Credit: 1, Type: rpcrdma.MsgTypeMsgP, Align: uint32(align), Thresh: uint32(thresh)}
		stream, _ := padded(parts, h.Size(), align, thresh, -1)
		r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Profile: rpcrdma.RFC5666, Binding: chunks.NFSv3}))
		call := &rpcrdma.Call{XID: 5, Prog: 100003, Vers: 3, Proc: proc}
		noErr(t, r.Begin(call))
		send(t, r, call)
		send := append(h.Append(nil), stream...)
		unpads(t, func(h *rpcrdma.Header, send []byte, b chunks.Binding) ([]byte, error) {
			return rpcrdma.UnpadReply(h, send, b, call.Prog, call.Vers, call.Proc)
		}, &h, send, parts)
		got, why := r.Receive(send)
		if want := flat(res); got == nil || call.Result.Err != nil || !bytes.Equal(clean(call.Result.Results, res), want) {
			t.Fatalf("proc %d, align %d, thresh %d: %v, %v\n got %x\nwant %x", proc, align, thresh, why, call.Result.Err, call.Result.Results, want)
		}
	}
}

// TestPaddedRefused: what cannot be decoded is refused, not guessed.
func TestPaddedRefused(t *testing.T) {
	write := append(xdr.AppendOpaque(nil, make([]byte, 32)), u32s(0, 0, 40, 2, 40)...)
	for _, test := range []struct {
		name          string
		align, thresh uint32
		msg           []byte
		verdict       rpcrdma.Verdict
		err           error
	}{
		{"no alignment", 0, 40, rpcCall(5, 7), rpcrdma.Answer, rpcrdma.ErrPadding},
		{"no power of two", 24, 40, rpcCall(5, 7), rpcrdma.Answer, rpcrdma.ErrPadding},
		{"a program of unknown shape", 16, 40, append(u32s(5, 0, 2, 400100, 1, 1, 0, 0, 0, 0), 0, 0, 0, 1), rpcrdma.Answer, rpcrdma.ErrPadding},
		{"the same without arguments", 16, 40, u32s(5, 0, 2, 400100, 1, 0, 0, 0, 0, 0), rpcrdma.Dispatch, nil},
		{"GSS protects the body", 16, 40, append(xdr.AppendCall(nil, &xdr.CallHeader{
			XID: 5, RPCVers: 2, Prog: 100003, Vers: 3, Proc: 7, Cred: xdr.Auth{Flavor: 6, Body: u32s(1, 0, 1, 2, 0)},
		}), write...), rpcrdma.Answer, rpcrdma.ErrPadding},
		{"data missing", 16, 40, append(rpcCall(5, 7), write...), rpcrdma.Answer, rpcrdma.ErrArgs},
		{"pad missing", 4096, 40, append(append(rpcCall(5, 7), write...), make([]byte, 40)...), rpcrdma.Answer, rpcrdma.ErrArgs},
		{"credential too long", 16, 40, u32s(5, 0, 2, 100003, 3, 0, 1, 404), rpcrdma.Answer, rpcrdma.ErrRPC},
		{"no header", 16, 40, u32s(5, 0, 2), rpcrdma.Answer, rpcrdma.ErrRPC},
		{"another RPC version", 16, 40, u32s(5, 0, 3), rpcrdma.Dispatch, nil},
		{"a reply", 16, 40, u32s(5, 1, 0, 0, 0, 0), rpcrdma.Drop, rpcrdma.ErrDirection},
	} {
		r := newResponder(rpcrdma.ResponderConfig{Profile: rpcrdma.RFC5666})
		h := rpcrdma.Header{XID: 5, Vers: 1, Type: rpcrdma.MsgTypeMsgP, Align: test.align, Thresh: test.thresh}
		var in rpcrdma.Inbound
		if v := r.Receive(append(h.Append(nil), test.msg...), &in); v != test.verdict || !errors.Is(in.Err, test.err) {
			t.Errorf("%s: %v, %v", test.name, v, in.Err)
		}
	}
}

// TestPaddedSent: what a requester sends as RDMA_MSGP another implementation decodes, and
// its item is aligned; others go as RDMA_MSG.
func TestPaddedSent(t *testing.T) {
	rng := seeded(t)
	sent := 0
	for range 2000 {
		align := 4 << rng.IntN(7)
		r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Profile: rpcrdma.RFC5666, SendSize: 1024, Align: align, AlignMin: 100, Binding: chunks.NFSv3}))
		args := append(xdr.AppendOpaque(nil, ramp(rng.IntN(65), 1)), make([]byte, 16)...)
		data := ramp(rng.IntN(900), 7)
		args = binary.BigEndian.AppendUint32(args, uint32(len(data)))
		call := &rpcrdma.Call{XID: 5, Prog: 100003, Vers: 3, Proc: 7, Message: chunks.Message{
			Head: rpcCall(5, 7), Body: args, Items: []chunks.Item{{Pos: 40 + len(args), Data: data}},
		}}
		noErr(t, r.Plan(call))
		if !call.Plan.Padded {
			continue
		}
		sent++
		noErr(t, r.Begin(call))
		send, _, err := r.AppendCall(nil, call)
		if err != nil || len(send) > 1024 || bytes.Index(send, data)%align != 0 {
			t.Fatalf("%d octets, %v, data at %d, align %d", len(send), err, bytes.Index(send, data), align)
		}
		var in rpcrdma.Inbound
		p := newResponder(rpcrdma.ResponderConfig{Profile: rpcrdma.RFC5666})
		if v := p.Receive(send, &in); v != rpcrdma.Dispatch || !bytes.Equal(in.Args, call.Message.Append(nil, 0)[40:]) {
			t.Fatalf("%v: %v", v, in.Err)
		}
	}
	if sent < 100 {
		t.Errorf("%d were padded", sent)
	}
}
