package transport_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// threeItems takes three opaques and returns them in the opposite order, with a word
// before and 3000 words behind.
func threeItems(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	var items [3][]byte
	for i := range items {
		items[i] = d.Opaque(1 << 20)
		d.Uint32()
	}
	if d.End() != nil {
		resp.Stat = xdr.GarbageArgs
		return
	}
	resp.Results = xdr.AppendUint32(resp.Results, 77)
	for i := range items {
		b := resp.Buffer(len(items[2-i]))
		copy(b, items[2-i])
		resp.AppendItem(b)
	}
	resp.Results = append(resp.Results, make([]byte, 12000)...)
}

// TestManyChunks makes a call that Linux never makes: several read chunks at different
// Positions behind a Position Zero chunk, in many segments, with pads in every manner,
// and several write chunks beside a reply chunk, one of them empty and one with a segment
// for the pad.
func TestManyChunks(t *testing.T) {
	_, addr := startServer(t, rpc.HandlerFunc(threeItems), config5666())
	p := rawClient(t, addr, rawConfig(plainPrivate(), 4096))
	in := [][]byte{filled(5001), filled(30), filled(70_002)}
	stream := rpcCall(9, 1)
	h := rpcrdma.Header{XID: 9, Type: rpcrdma.MsgTypeNoMsg}
	unreduced := len(stream)
	var read []chunks.ReadSegment
	for i, data := range in {
		stream = xdr.AppendUint32(stream, uint32(len(data)))
		unreduced += 4
		if i != 1 { // the second stays in the stream
			mem := xdr.AppendPad(bytes.Clone(data), len(data))
			seg := p.offer(mem, region.RemoteRead)
			for off := uint64(0); off < uint64(len(mem)); off += 20_000 {
				s := seg
				s.Offset, s.Length = seg.Offset+off, uint32(min(20_000, uint64(len(mem))-off))
				if i == 0 { // without the pad
					s.Length = uint32(len(data))
				}
				read = append(read, chunks.ReadSegment{Position: uint32(unreduced), Segment: s})
			}
		} else {
			stream = xdr.AppendPad(append(stream, data...), len(data))
		}
		unreduced += len(data) + xdr.Pad(len(data)) + 4
		stream = xdr.AppendUint32(stream, 0)
	}
	zero := p.offer(stream, region.RemoteRead)
	for off := range uint64(len(stream)) { // octet by octet
		h.Read = append(h.Read, chunks.ReadSegment{Segment: chunks.Segment{Handle: zero.Handle, Offset: zero.Offset + off, Length: 1}})
	}
	h.Read = append(h.Read, read...)
	big, pad, rest := make([]byte, 70_002), bytes.Repeat([]byte{0xa5}, 4), make([]byte, 13_000)
	last := make([]byte, 5001)
	h.Write = []chunks.WriteChunk{
		{p.offer(big, region.RemoteWrite), p.offer(pad, region.RemoteWrite)}, {}, {p.offer(last, region.RemoteWrite)},
	}
	h.HasReply, h.Reply = true, chunks.WriteChunk{p.offer(rest[:7], region.RemoteWrite), p.offer(rest[7:], region.RemoteWrite)}

	p.send(header(h))
	got, _ := p.recv()
	want := rpcReply(9, words(77, 70_002, 30)...)
	want = append(xdr.AppendPad(append(want, in[1]...), 30), words(5001)...)
	want = append(want, make([]byte, 12_000)...)
	if got.Type != rpcrdma.MsgTypeNoMsg || got.Reply.Room() != uint64(len(want)) || !bytes.Equal(rest[:len(want)], want) {
		t.Errorf("reply chunk: %+v", got)
	}
	if len(got.Write) != 3 || got.Write[0][0].Length != 70_002 || got.Write[0][1].Length != 0 || len(got.Write[1]) != 0 || got.Write[2][0].Length != 5001 {
		t.Errorf("write list: %+v", got.Write)
	}
	if !bytes.Equal(big, in[2]) || !bytes.Equal(last, in[0]) || !bytes.Equal(pad, []byte{0xa5, 0xa5, 0xa5, 0xa5}) {
		t.Error("wrong octets were written")
	}
}

// TestPreferReplyChunk: a reply that fits inline leaves by the reply chunk when the server
// is told so, as Linux does it.
func TestPreferReplyChunk(t *testing.T) {
	for _, prefer := range []bool{false, true} {
		cfg := testConfig()
		cfg.PreferReplyChunk = prefer
		s, c := pair(t, newEcho(), cfg, nil)
		call := wordCall(procList, 10)
		call.MaxResults = 20_000
		wantList(t, mustDo(t, c, call), 10)
		if st := s.Stats(); (st.OctetsWritten == 24+40) != prefer {
			t.Errorf("prefer %v: %+v", prefer, st)
		}
	}
}
