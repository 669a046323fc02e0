package decode_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// sender wraps messages into the Sends of one direction.
type sender struct {
	dir decode.Dir
	msn byte
}

func (s *sender) send(msg []byte) piece {
	s.msn++
	u := append([]byte{0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, s.msn, 0, 0, 0, 0}, msg...)
	return piece{dir: s.dir, b: mpa.AppendFPDU(nil, u, true)}
}

// tagged returns a Write or Read Response of one segment.
func tagged(dir decode.Dir, op byte, tag uint32, to uint64, b []byte) piece {
	u := xdr.AppendUint64(xdr.AppendUint32([]byte{0xc1, 0x40 | op}, tag), to)
	return piece{dir: dir, b: mpa.AppendFPDU(nil, append(u, b...), true)}
}

// The messages of RFC 8166 and RFC 5666 that the codecs' own tests use.
const (
	nullCall = `0102030400000001000000200000000000000000000000000000000001020304000000000000000200 0186a300000003
		0000000000000000000000000000000000000000`
	nullReply = `010203040000000100000010000000000000000000000000000000000102030400000001000000000000000000000000
		00000000`
	writeCall = `010203040000000100000020000000000000000100000060a1a1a1a10000100000000000000100000000000100000060
		a1a1a1a200000ffe0000000000020000000000000000000000000000010203040000000000000002000186a300000003
		000000070000000000000000000000000000000000000020000102030405060708090a0b0c0d0e0f1011121314151617
		18191a1b1c1d1e1f000000000000000000001ffe0000000200001ffe`
	readCall = `01020304000000010000002000000000000000000000000100000002b1b1b1b1000010000000000000030000b1b1b1b2
		0000100000000000000400000000000000000000010203040000000000000002000186a3000000030000000600000000
		00000000000000000000000000000020000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
		000000000000000000002000`
	readReply = `01020304000000010000002000000000000000000000000100000002b1b1b1b1000010000000000000030000b1b1b1b2
		000003880000000000040000000000000000000001020304000000010000000000000000000000000000000000000000
		00000000000013880000000100001388`
	staleReply = `01020304000000010000002000000000000000000000000100000002b1b1b1b1000000000000000000030000b1b1b1b2
		000000000000000000040000000000000000000001020304000000010000000000000000000000000000000000000046
		00000000`
	longCall = `010203040000000100000020000000010000000100000000c1c1c1c10000051400000000000500000000000000000000
		0000000100000001d1d1d1d1000080000000000000060000`
	longReply = "0102030400000001000000200000000100000000000000000000000100000001d1d1d1d1000050040000000000060000"
	msgpCall  = `01020304000000010000002000000002000010000000040000000000000000000000000001020304000000000000 0002
		000186a3000000030000000000000000000000000000000000000000`
	done        = "01020304000000010000002000000003"
	errVers     = "01020304000000020000002000000004000000010000000100000001"
	errChunk    = "0102030400000001000000200000000400000002"
	readByReply = `01020304000000010000001000000000000000010000002ce1e1e1e10000138800000000000700000000000000000000
		000000000102030400000001000000000000000000000000000000000000000000000000000013880000000100001388`
	longByRead = `010203040000000100000010000000010000000100000000e2e2e2e20000500400000000000800000000000000000000
		00000000`
)

// The Connection Configuration Protocol (RFC 5666 Section 6), and a call of the backward direction (RFC 8167).
const (
	ccpCall = `01020304000000010000000100000000000000000000000000000000010203040000000000000002000188410000000100000001
		00000000000000000000000000000000000008000000040000000010`
	ccpReply = `0102030400000001000000010000000000000000000000000000000001020304000000010000000000000000000000000000
		0000000010000000000800000020`
	backCall = `0102030400000001000000200000000000000000000000000000000001020304000000000000000240000000000000010000000000
		00000000000000000000000000000000`
)

// readRequest returns a Read Request of the acceptor; the sink's tag is the MSN too.
func readRequest(sink, size, tag uint32, to uint64) piece {
	b := xdr.AppendUint32(xdr.AppendUint64(xdr.AppendUint32(nil, sink), 0), size)
	b = xdr.AppendUint64(xdr.AppendUint32(b, tag), to)
	u := append([]byte{0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, byte(sink), 0, 0, 0, 0}, b...)
	return piece{dir: decode.FromAccepter, b: mpa.AppendFPDU(nil, u, true)}
}

// TestMessages sends one message per row and looks at the last line.
func TestMessages(t *testing.T) {
	ask, answer := &sender{dir: decode.FromOpener}, &sender{dir: decode.FromAccepter}
	call := func(hex string) piece { return ask.send(unhex(t, hex)) }
	reply := func(hex string) piece { return answer.send(unhex(t, hex)) }
	data := make([]byte, 8192)
	for _, tt := range []struct {
		name string
		say  func() []piece
		want string
	}{
		{
			"call", func() []piece { return []piece{call(nullCall)} },
			"| RDMA_MSG xid=0x01020304 credits=32 | call NFSv3 NULL",
		},
		{
			"reply", func() []piece { return []piece{call(nullCall), reply(nullReply)} },
			"| RDMA_MSG xid=0x01020304 credits=16 | reply NFSv3 NULL (call in 1)",
		},
		{
			"reply without a call", func() []piece { return []piece{reply(nullReply)} },
			"| reply !! reply to a call that was not seen",
		},
		{
			"Read chunks announced", func() []piece { return []piece{call(writeCall)} },
			"read{position=96 0xa1a1a1a1 4096@0x10000} read{position=96 0xa1a1a1a2 4094@0x20000} | call NFSv3 WRITE",
		},
		{"Read chunks pulled", func() []piece {
			return []piece{
				call(writeCall), readRequest(1, 4096, 0xa1a1a1a1, 0x10000), readRequest(2, 4094, 0xa1a1a1a2, 0x20000),
				tagged(decode.FromOpener, 2, 1, 0, data[:4096]), tagged(decode.FromOpener, 2, 2, 0, data[:4094]),
			}
		}, "len=4094 last | Read chunks of xid=0x01020304 complete: call NFSv3 WRITE fh=0x91267e8a offset=0 count=8190 stable=2"},
		{
			"Read Response nobody asked for", func() []piece { return []piece{call(writeCall), tagged(decode.FromOpener, 2, 1, 0, data[:4])} },
			"!! segment out of order: Read Response without a Read Request",
		},
		{"Read Response too long", func() []piece {
			return []piece{call(writeCall), readRequest(1, 4096, 0xa1a1a1a1, 0x10000), tagged(decode.FromOpener, 2, 1, 4000, data[:97])}
		}, "!! segment out of order: Read Response outside the oldest Read Request"},
		{"Write chunk used", func() []piece {
			return []piece{
				call(readCall), tagged(decode.FromAccepter, 0, 0xb1b1b1b1, 0x30000, data[:4096]),
				tagged(decode.FromAccepter, 0, 0xb1b1b1b2, 0x40000, data[:904]), reply(readReply),
			}
		}, "write{0xb1b1b1b1 4096@0x30000; 0xb1b1b1b2 904@0x40000} | reply NFSv3 READ NFS3_OK count=5000 eof=true (call in 1)"},
		{
			"Write chunk unused", func() []piece { return []piece{call(readCall), reply(staleReply)} },
			"write{0xb1b1b1b1 0@0x30000; 0xb1b1b1b2 0@0x40000} | reply NFSv3 READ NFS3ERR_STALE (call in 1)",
		},
		{
			"long call", func() []piece { return []piece{call(longCall)} },
			"| RDMA_NOMSG xid=0x01020304 credits=32 read{position=0 0xc1c1c1c1 1300@0x50000} reply{0xd1d1d1d1 32768@0x60000}",
		},
		{
			"long reply, chunk not seen", func() []piece { return []piece{call(longCall), reply(longReply)} },
			"reply{0xd1d1d1d1 20484@0x60000} | reply (call in 1) !! chunk contents not seen: Reply chunk",
		},
		{
			"RDMA_MSGP", func() []piece { return []piece{call(msgpCall)} },
			"| RDMA_MSGP xid=0x01020304 credits=32 | call NFSv3 NULL",
		},
		{"RDMA_DONE", func() []piece { return []piece{call(done)} }, "| RDMA_DONE xid=0x01020304 credits=32"},
		{
			"ERR_VERS", func() []piece { return []piece{call(nullCall), reply(errVers)} },
			"| RDMA_ERROR xid=0x01020304 version=2 credits=32 ERR_VERS low=1 high=1",
		},
		{
			"ERR_CHUNK ends the call", func() []piece { return []piece{call(nullCall), reply(errChunk), reply(nullReply)} },
			"| reply !! reply to a call that was not seen",
		},
		{
			"reply with a Read list", func() []piece { return []piece{call(readCall), reply(readByReply)} },
			"read{position=44 0xe1e1e1e1 5000@0x70000} | reply NFSv3 READ NFS3_OK (call in 1)",
		},
		{
			"long reply to be read", func() []piece { return []piece{call(readCall), reply(longByRead)} },
			"read{position=0 0xe2e2e2e2 20484@0x80000} | reply NFSv3 READ (call in 1)",
		},
		{
			"CCP call", func() []piece { return []piece{call(ccpCall)} },
			"call CCPv1 CONF_RDMA maxcall_sendsize=2048 maxreply_sendsize=1024 maxrdmaread=16",
		},
		{
			"CCP reply", func() []piece { return []piece{call(ccpCall), reply(ccpReply)} },
			"reply CCPv1 CONF_RDMA maxcall_sendsize=4096 align=8 maxrdmaread=32 (call in 1)",
		},
		{
			"CCP reply cut short", func() []piece { return []piece{call(ccpCall), reply(ccpReply[:len(ccpReply)-8])} },
			"reply CCPv1 CONF_RDMA (call in 1) !! xdr: CONF_RDMA at octet 8: not enough octets",
		},
		{
			"backward", func() []piece { return []piece{reply(backCall)} },
			"call (backward) NFS4CBv1 NULL",
		},
		{
			"backward, answered", func() []piece { return []piece{reply(backCall), call(nullReply)} },
			"reply (backward) NFS4CBv1 NULL (call in 1)",
		},
		{
			"XIDs differ", func() []piece { return []piece{call(strings.Replace(nullCall, "01020304", "01020305", 1))} },
			"!! XID 0x01020305 in the transport header, 0x01020304 in the RPC message",
		},
		{
			"no message", func() []piece { return []piece{call(nullCall[:56])} },
			"| RDMA_MSG xid=0x01020304 credits=32 !! too short for its header: RPC message of 0 octets",
		},
		{
			"neither call nor reply", func() []piece { return []piece{call(nullCall[:64] + "0000000700000000")} },
			"!! value out of range: RPC message type 7",
		},
		{
			"empty RDMA_NOMSG", func() []piece { return []piece{call("01020304000000010000002000000001000000000000000000000000")} },
			"!! RDMA_NOMSG without a message: chunks: no position zero chunk",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			*ask, *answer = sender{dir: decode.FromOpener}, sender{dir: decode.FromAccepter}
			lines := say(append(startup(true), tt.say()...), &decode.Options{ULP: decode.ULPRPCRDMA}, whole)
			got := lines[len(lines)-1]
			if !strings.HasSuffix(got, tt.want) {
				t.Errorf("got  %s\nwant … %s", strings.Join(lines[2:], "\n     "), tt.want)
			}
		})
	}
}

// TestGuessULP: without private data the first Send decides.
func TestGuessULP(t *testing.T) {
	for _, tt := range []struct {
		msg  string
		want decode.ULP
	}{
		{nullCall, decode.ULPRPCRDMA},
		{nullReply, decode.ULPRPCRDMA},
		{longCall, decode.ULPRPCRDMA},
		{"", decode.ULPOpaque},
		{strings.Replace(nullCall, "01020304", "01020305", 1), decode.ULPOpaque},
		{errVers, decode.ULPOpaque},
		{done, decode.ULPOpaque},
		{"01020304000000010000002000000001000000000000000000000000", decode.ULPOpaque},
		{"48454c4c4f", decode.ULPOpaque},
	} {
		if got := decode.GuessULP(unhex(t, tt.msg)); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.msg, got, tt.want)
		}
	}
}

// rpcs returns the RPCs in a conversation, of pieces that nothing changes later.
func rpcs(pieces []piece) (all []decode.RPC) {
	c := decode.NewConn(&decode.Options{ULP: decode.ULPRPCRDMA}, func(ev *decode.Event) {
		if r := ev.RPC; r != nil {
			kept := r.Plain()
			kept.Body = bytes.Clone(r.Body)
			if r.Call != nil {
				h := *r.Call
				h.Cred.Body, h.Verf.Body, kept.Call = bytes.Clone(h.Cred.Body), bytes.Clone(h.Verf.Body), &h
			}
			if r.Message != nil { // the same of memory of its own
				kept.Message = reflect.New(reflect.TypeOf(r.Message).Elem()).Interface().(xdr.Message)
				d := xdr.NewDecoder(xdr.Encode(nil, r.Message))
				if err := xdr.Decode(&d, kept.Message).Err(); err != nil {
					kept.Err = err
				}
			}
			all = append(all, kept)
		}
	})
	for _, p := range pieces {
		c.Octets(p.dir, p.b, decode.Stamp{Frame: 1})
	}
	c.Finish()
	return all
}

// message returns the message of b, whose last item has n octets of data, as a sender takes it.
func message(head, b []byte, n int) chunks.Message {
	if n == 0 {
		return chunks.Message{Head: head, Body: b}
	}
	at := len(b) - n - xdr.Pad(n)
	return chunks.Message{Head: head, Body: b[:at], Items: []chunks.Item{{Pos: len(head) + at, Data: b[at : at+n]}}}
}

// conversation is a call and its reply, as our engine sends them to a peer whose buffers are aligned so; 0: no RDMA_MSGP.
func conversation(t testing.TB, align int, cred []byte, proc nfs3.Proc, args xdr.Message, arg int, res xdr.Message, result int) [][]byte {
	t.Helper()
	const xid = 0x01020304
	q := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{
		Profile: rpcrdma.RFC5666, SendSize: 16384, RecvSize: 16384, Align: align, AlignMin: 1, Binding: chunks.NFSv3,
	}))
	head := xdr.AppendCall(nil, &xdr.CallHeader{
		XID: xid, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc), Cred: xdr.Auth{Flavor: 3, Body: cred},
	})
	c := &rpcrdma.Call{XID: xid, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc)}
	c.Message = message(head, xdr.Encode(nil, args), arg)
	must(t, errors.Join(q.Plan(c), q.Begin(c)))
	call, _, err := q.AppendCall(nil, c)
	must(t, err)
	p := made(rpcrdma.NewResponder(rpcrdma.ResponderConfig{
		Profile: rpcrdma.RFC5666, SendSize: 16384, Align: align, AlignMin: 1, Binding: chunks.NFSv3,
	}))
	p.Credits().Posted(p.Credits().Need())
	var in rpcrdma.Inbound
	if v := p.Receive(bytes.Clone(call), &in); v != rpcrdma.Dispatch {
		t.Fatal(v, in.Err)
	}
	p.Credits().Posted(p.Credits().Need())
	m := message(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid}), xdr.Encode(nil, res), result)
	var out rpcrdma.Reply
	p.Reply(nil, &in, &m, &out)
	return [][]byte{call, append(out.Head, out.Body...)}
}

// exchange sends a call and its reply.
func exchange(sends [][]byte) []piece {
	ask, answer := sender{dir: decode.FromOpener}, sender{dir: decode.FromAccepter}
	return append(startup(true), ask.send(sends[0]), answer.send(sends[1]))
}

func isPadded(send []byte) bool { return rpcrdma.IsPadded(send) }

// TestUnpadded: what our engine sends as RDMA_MSGP is decoded like the same in RDMA_MSG.
func TestUnpadded(t *testing.T) {
	fh := func(n int) nfs3.FileHandle { return nfs3.FileHandle(octetsOf(n)) }
	for _, align := range []int{4, 8, 32, 64, 512, 4096} {
		for _, n := range []int{130, 511, 512, 1023, 3001} {
			for _, cred := range []int{0, 4, 37, 64} {
				data := octetsOf(n)
				write := conversation(t, align, octetsOf(cred), nfs3.ProcWrite,
					&nfs3.WriteArgs{Handle: fh(29), Count: uint32(n), Stable: 2, Data: data}, n, &nfs3.WriteRes{Status: nfs3.OK}, 0)
				wplain := conversation(t, 0, octetsOf(cred), nfs3.ProcWrite,
					&nfs3.WriteArgs{Handle: fh(29), Count: uint32(n), Stable: 2, Data: data}, n, &nfs3.WriteRes{Status: nfs3.OK}, 0)
				read := conversation(t, align, octetsOf(cred), nfs3.ProcRead,
					&nfs3.ReadArgs{Handle: fh(29), Count: uint32(n)}, 0, &nfs3.ReadRes{Status: nfs3.OK, Count: uint32(n), Data: data}, n)
				rplain := conversation(t, 0, octetsOf(cred), nfs3.ProcRead,
					&nfs3.ReadArgs{Handle: fh(29), Count: uint32(n)}, 0, &nfs3.ReadRes{Status: nfs3.OK, Count: uint32(n), Data: data}, n)
				if n > 300 && (!isPadded(write[0]) || !isPadded(read[1]) || isPadded(wplain[0]) || isPadded(rplain[1])) {
					t.Fatalf("align %d, %d octets: not padded, or all", align, n)
				}
				same(t, fmt.Sprintf("WRITE, align %d, %d octets, credential %d", align, n, cred), write, wplain)
				same(t, fmt.Sprintf("READ, align %d, %d octets, credential %d", align, n, cred), read, rplain)
			}
		}
	}
}

// same fails unless two conversations are the same RPCs, whole.
func same(t *testing.T, name string, padded, plain [][]byte) {
	t.Helper()
	got, want := rpcs(exchange(padded)), rpcs(exchange(plain))
	if len(got) != 2 || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", name, got, want)
	}
	for _, r := range got {
		if !r.Whole || r.Message == nil || r.Err != nil {
			t.Errorf("%s: whole %t, %v", name, r.Whole, r.Err)
		}
	}
}

func octetsOf(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	return b
}

// msgp returns an RDMA_MSGP of words and items: a []byte is an item, padded by hand when it reaches the threshold.
func msgp(h rpcrdma.Header, parts ...any) []byte {
	h.XID, h.Vers, h.Credit, h.Type = 0x01020304, 1, 32, rpcrdma.MsgTypeMsgP
	b := h.Append(nil)
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		case []byte:
			b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
			if len(p) >= int(h.Thresh) {
				for len(b)%int(h.Align) != 0 {
					b = append(b, 0xee)
				}
			}
			b = append(append(b, p...), make([]byte, xdr.Pad(len(p)))...)
		}
	}
	return b
}

// TestUnpaddedByHand: pads that our own sender does not send, and pads that cannot be found.
func TestUnpaddedByHand(t *testing.T) {
	const xid = 0x01020304
	pads := rpcrdma.Header{Align: 64, Thresh: 8}
	h32, name := octetsOf(32), []byte("a-long-name")
	rename := []any{xid, 0, 2, nfs3.Program, 3, int(nfs3.ProcRename), 3, octetsOf(20), 0, 0, h32, name, h32, []byte("b")}
	lookup := []any{xid, 0, 2, nfs3.Program, 3, int(nfs3.ProcLookup), 0, 0, 0, 0, h32, name}
	for _, test := range []struct {
		name string
		send []byte
		want string // of the body
		say  string
		err  error
	}{
		{"all items", msgp(pads, rename...), string(plain(h32, name, h32, []byte("b"))), "NFSv3 RENAME", nil},
		{"no item", msgp(rpcrdma.Header{Align: 64, Thresh: 500}, lookup...), string(plain(h32, name)), "NFSv3 LOOKUP", nil},
		{"threshold 0", msgp(rpcrdma.Header{Align: 16}, xid, 0, 2, nfs3.Program, 3, int(nfs3.ProcLookup), 0, []byte{}, 0, []byte{}, h32, name), string(plain(h32, name)), "NFSv3 LOOKUP", nil},
		{"NULL of anything", msgp(pads, xid, 0, 2, 400100, 1, 0, 3, octetsOf(20), 0, 0), "", "program-400100v1 NULL", nil},
		{"a program of unknown shape", msgp(pads, xid, 0, 2, 400100, 1, 1, 3, octetsOf(20), 0, 0, 7), "\x00\x00\x00\x07", "program-400100v1 proc-1", decode.ErrPadded},
		{"MOUNT", msgp(pads, xid, 0, 2, mount3.Program, 3, 1, 0, 0, 0, 0, []byte("/a")), string(plain([]byte("/a"))), "MOUNTv3 MNT", decode.ErrPadded},
		{"no alignment", msgp(rpcrdma.Header{Align: 1, Thresh: 8}, lookup...), string(plain(h32, name)), "NFSv3 LOOKUP", rpcrdma.ErrPadding},
		{"data missing", msgp(pads, lookup[:11]...), string(plain(h32)), "NFSv3 LOOKUP", rpcrdma.ErrArgs},
		{"data cut", shorter(msgp(pads, lookup...), 5), string(plain(h32)) + "\x00\x00\x00\x0b" + string(bytes.Repeat([]byte{0xee}, 28)) + "a-long-", "NFSv3 LOOKUP", rpcrdma.ErrArgs},
	} {
		t.Run(test.name, func(t *testing.T) {
			ask := sender{dir: decode.FromOpener}
			got := rpcs(append(startup(true), ask.send(test.send)))
			if len(got) != 1 || got[0].Name != test.say || string(got[0].Body) != test.want || !errors.Is(got[0].Err, test.err) {
				t.Fatalf("%+v", got)
			}
			if got[0].Whole != (test.err == nil) || (got[0].Message != nil) != (test.err == nil && got[0].Prog == nfs3.Program) {
				t.Errorf("whole %t, message %v", got[0].Whole, got[0].Message)
			}
		})
	}
}

// plain returns items without pads.
func plain(items ...[]byte) (b []byte) {
	for _, it := range items {
		b = xdr.AppendOpaque(b, it)
	}
	return b
}

func shorter(b []byte, n int) []byte { return b[:len(b)-n] }

// TestUnpaddedPull: Positions count the stream without pads.
func TestUnpaddedPull(t *testing.T) {
	fh, data := octetsOf(32), octetsOf(100)
	for _, align := range []uint32{64, 6} {
		h := rpcrdma.Header{Align: align, Thresh: 8}
		h.Read = []chunks.ReadSegment{{Position: 40 + 36 + 20, Segment: chunks.Segment{Handle: 7, Length: 100}}}
		ask := sender{dir: decode.FromOpener}
		send := msgp(h, 0x01020304, 0, 2, nfs3.Program, 3, int(nfs3.ProcWrite), 0, 0, 0, 0, fh, 0, 0, 100, 2, 100)
		got := rpcs(append(startup(true), ask.send(send), readRequest(1, 100, 7, 0), tagged(decode.FromOpener, 2, 1, 0, data)))
		if len(got) != 2 || !got[1].Pulled {
			t.Fatalf("%+v", got)
		}
		if align == 6 {
			if got[1].Whole || !errors.Is(got[1].Err, rpcrdma.ErrPadding) {
				t.Errorf("pads left in it: %+v", got[1])
			}
			continue
		}
		args, ok := got[1].Message.(*nfs3.WriteArgs)
		if !ok || !got[1].Whole || got[0].Whole || !bytes.Equal(args.Data, data) {
			t.Errorf("%+v", got)
		}
	}
}

// TestUnpaddedDoubt: a sender that counts positions from elsewhere is not taken for one that does not know NFS.
func TestUnpaddedDoubt(t *testing.T) {
	ask := sender{dir: decode.FromOpener}
	h := rpcrdma.Header{Align: 64, Thresh: 100}
	// The data of the WRITE are due at 36+40+36+20 = 132 of the Send, and at 96 of the message: 32 octets of pad, not 60.
	send := msgp(h, 0x01020304, 0, 2, nfs3.Program, 3, int(nfs3.ProcWrite), 0, 0, 0, 0, octetsOf(32), 0, 0, 100, 2)
	send = append(xdr.AppendUint32(send, 100), make([]byte, 32+100)...)
	got := rpcs(append(startup(true), ask.send(send)))
	if len(got) != 1 || got[0].Whole || got[0].Message != nil || !errors.Is(got[0].Err, rpcrdma.ErrArgs) {
		t.Errorf("short: %+v", got)
	}
	got = rpcs(append(startup(true), ask.send(append(send, make([]byte, 32)...))))
	if len(got) != 1 || got[0].Whole || got[0].Message != nil || !errors.Is(got[0].Err, decode.ErrTrailing) {
		t.Errorf("long: %+v", got)
	}
}

func made[M any](m M, err error) M {
	if err != nil {
		panic(err)
	}
	return m
}
