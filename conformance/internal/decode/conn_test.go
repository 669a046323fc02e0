package decode_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	mem "github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/xdr"
)

// piece is some octets of one direction.
type piece struct {
	dir    decode.Dir
	b      []byte
	hole   int  // octets missing before b
	joined bool // the beginning of the direction was missed
}

// conversations returns what was sent on each connection of a capture, in the order of the events.
func conversations(tb testing.TB, file string) [][]piece {
	tb.Helper()
	var all [][]piece
	decodeFile(tb, file, func(ev *decode.Event) {
		for len(all) < ev.Conn.ID {
			all = append(all, nil)
		}
		if ev.Len > 0 {
			c := &all[ev.Conn.ID-1]
			*c = append(*c, piece{dir: ev.Dir, b: append([]byte(nil), ev.Raw...)})
		}
	})
	return all
}

// say feeds a conversation to a new Conn, each piece cut up by cut, and returns the events as
// lines without packet numbers.
func say(pieces []piece, opt *decode.Options, cut func([]byte) [][]byte) []string {
	var lines []string
	c := decode.NewConn(opt, func(ev *decode.Event) {
		_, line, _ := strings.Cut(strings.TrimLeft(ev.Line(time.Time{}), " "), " ")
		lines = append(lines, line)
	})
	for _, p := range pieces {
		if p.joined {
			c.Join(p.dir)
		}
		if p.hole > 0 {
			c.Hole(p.dir, p.hole, decode.Stamp{Frame: 1})
		}
		for _, b := range cut(p.b) {
			c.Octets(p.dir, b, decode.Stamp{Frame: 1})
		}
	}
	c.Finish()
	return lines
}

func whole(b []byte) [][]byte { return [][]byte{b} }

// TestSplitInvariance: whatever TCP does to the boundaries, the events are the same.
func TestSplitInvariance(t *testing.T) {
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, seed))
	random := func(b []byte) (cut [][]byte) {
		for len(b) > 0 {
			n := 1 + rnd.IntN(min(len(b), 1+rnd.IntN(600)))
			cut, b = append(cut, b[:n]), b[n:]
		}
		return cut
	}
	octets := func(b []byte) (cut [][]byte) {
		for i := range b {
			cut = append(cut, b[i:i+1])
		}
		return cut
	}
	for _, file := range captures(t) {
		for i, pieces := range conversations(t, file) {
			want := say(pieces, nil, whole)
			cuts := map[string]func([]byte) [][]byte{"random": random}
			if strings.HasPrefix(filepath.Base(file), "d-") {
				cuts["octets"] = octets
			}
			for name, cut := range cuts {
				got := say(pieces, nil, cut)
				if a, b := strings.Join(decoded(got), "\n"), strings.Join(decoded(want), "\n"); a != b {
					t.Errorf("seed %d: %s, connection %d, %s: got\n%s\nwant\n%s", seed, file, i+1, name, a, b)
				}
			}
		}
	}
}

// decoded leaves out the lines about octets that were not decoded: they come as the octets came.
func decoded(lines []string) (out []string) {
	for _, l := range lines {
		if !strings.Contains(l, "not decoded") {
			out = append(out, l)
		}
	}
	return out
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	must(tb, err)
	return b
}

// startup returns a Request and a Reply without private data, with CRC as requested.
func startup(crc bool) []piece {
	req, rep := mpa.Request{Frame: mpa.Frame{Rev: 1, CRC: crc}}, mpa.Reply{Frame: mpa.Frame{Rev: 1}}
	a, _ := req.Append(nil)
	b, _ := rep.Append(nil)
	return []piece{{dir: decode.FromOpener, b: a}, {dir: decode.FromAccepter, b: b}}
}

// TestVectors decodes one FPDU per RDMAP message, CRC on.
func TestVectors(t *testing.T) {
	for _, tt := range []struct {
		name, fpdu, want string
	}{
		{
			"Write", "001ec140112233440000000100000000000102030405060708090a0b0c0d0e0f02febf03",
			"RDMA Write stag=11223344 to=0x100000000 len=16 last",
		},
		{
			"Read Request", `002e414100000000000000010000000100000000aabbccdd0000000000002000000010001122334400000000
			000010009ddf71c2`,
			"RDMA Read Request qn=1 msn=1 mo=0 len=28 last | sinkstag=aabbccdd sinkto=0x2000 rdmardsz=4096 srcstag=11223344 srcto=0x1000",
		},
		{"Send", "001741430000000000000000000000010000000048454c4c4f000000ccc19375", "Send qn=0 msn=1 mo=0 len=5 last"},
		{"Send, pad not zero", "001741430000000000000000000000010000000048454c4c4f010203a890c7e4", "Send qn=0 msn=1 mo=0 len=5 last"},
		{
			"Send with Invalidate", "001741441122334400000000000000030000000048454c4c4f000000abfbdb6f",
			"Send with Invalidate qn=0 msn=3 mo=0 inval_stag=11223344 len=5 last !! segment out of order: MSN 3, expected 1",
		},
		{
			"Terminate", "0026414700000000000000020000000100000000 1100c000001ec1401122334400000001 00000000769806af",
			"Terminate qn=2 msn=1 mo=0 len=20 last | Terminate 0x1/0x1/0x00 tagged, invalid STag",
		},
		{
			"Immediate", "001a41480000000000000000000000060000000001020304050607083d6b1697",
			"Immediate Data qn=0 msn=6 mo=0 len=8 last | data=0102030405060708 !! segment out of order: MSN 6, expected 1",
		},
		{
			"Atomic Response", "001e414b00000000000000030000000100000000000001010000000000000002abad93a9",
			"Atomic Response qn=3 msn=1 mo=0 len=12 last | id=257 old=0x2",
		},
		{
			"Flush Response", "0012414d0000000000000003000000040000000044165b34",
			"Flush Response qn=3 msn=4 mo=0 len=0 last !! segment out of order: MSN 4, expected 1",
		},
		{
			"Atomic Write Response", "0012415100000000000000030000000700000000e2c6f91e",
			"Atomic Write Response qn=3 msn=7 mo=0 len=0 last !! segment out of order: MSN 7, expected 1",
		},
		{
			"bad CRC", "001741430000000000000000000000010000000048454c4c4f000000ccc19376",
			"Send qn=0 msn=1 mo=0 len=5 last !! bad CRC: mpa: CRC error: got 0x7693c1cc, want 0x7593c1cc",
		},
		{"no header", "0001ff003afdc54e", "!! too short for its header: ULPDU of 1 octets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := say(append(startup(true), piece{dir: decode.FromOpener, b: unhex(t, tt.fpdu)}), nil, whole)
			got := lines[len(lines)-1]
			if !strings.HasSuffix(got, tt.want) || len(lines) != 3 {
				t.Errorf("%q, want … %q", lines, tt.want)
			}
		})
	}
}

// TestEveryOpcode: every opcode of the engine's table is named and fits its queue.
func TestEveryOpcode(t *testing.T) {
	for op := verbs.OpWrite; op <= verbs.OpAtomicWriteResponse; op++ {
		var got *decode.Event
		c := decode.NewConn(nil, func(ev *decode.Event) {
			if ev.RDMAP != nil {
				e, r := *ev, *ev.RDMAP
				e.RDMAP, got = &r, &e
			}
		})
		u := []byte{0x41, 0x40 | byte(op), 0, 0, 0, 0, 0, 0, 0, byte(op.Queue()), 0, 0, 0, 1, 0, 0, 0, 0}
		if op.Tagged() {
			u = append([]byte{0xc1, 0x40 | byte(op)}, make([]byte, 12)...)
		}
		for _, p := range startup(false) {
			c.Octets(p.dir, p.b, decode.Stamp{})
		}
		c.Octets(decode.FromOpener, mpa.AppendFPDU(nil, u, false), decode.Stamp{})
		if got == nil || got.RDMAP.Op != op || strings.HasPrefix(op.String(), "Opcode") {
			t.Errorf("%v: %v", op, got)
		}
		if errors.Is(got.Err, decode.ErrOpcode) {
			t.Errorf("%v: %v", op, got.Err)
		}
	}
}

// TestPhases: octets that are not where they belong.
func TestPhases(t *testing.T) {
	send := unhex(t, "001741430000000000000000000000010000000048454c4c4f000000ccc19375")
	ok := startup(true)
	rejected, _ := (&mpa.Reply{Frame: mpa.Frame{Rev: 1, Rejected: true}}).Append(nil)
	markers, _ := (&mpa.Reply{Frame: mpa.Frame{Rev: 1, Markers: true}}).Append(nil)
	for _, tt := range []struct {
		name   string
		pieces []piece
		want   []string
	}{
		{
			"foreign",
			[]piece{{dir: decode.FromOpener, b: []byte("SSH-2.0-x\r\n")}, {dir: decode.FromAccepter, b: []byte("SSH-2.0-y\r\n")}},
			[]string{"> 11 octets not decoded !! not an MPA stream", "< 11 octets not decoded !! not an MPA stream"},
		},
		{
			"FPDU before the Reply",
			[]piece{ok[0], {dir: decode.FromOpener, b: send}, ok[1]},
			[]string{"MPA Request", "MPA Reply", "Send"},
		},
		{
			"FPDU and no Reply",
			[]piece{ok[0], {dir: decode.FromOpener, b: send}},
			[]string{"MPA Request", "32 octets not decoded !! octets before the MPA Reply"},
		},
		{
			"rejected",
			[]piece{ok[0], {dir: decode.FromAccepter, b: rejected}, {dir: decode.FromOpener, b: send}},
			[]string{"MPA Request", "MPA Reply", "32 octets not decoded !! octets after a rejected startup"},
		},
		{
			"bad marker",
			[]piece{startup(false)[0], {dir: decode.FromAccepter, b: markers}, {dir: decode.FromOpener, b: append([]byte{0, 0, 0, 8}, append(send, send...)...)}, {dir: decode.FromAccepter, b: send}},
			[]string{"MPA Request", "MPA Reply", "> FPDU ulpdulength=0 crc=off !! bad marker", "> 32 octets not decoded !! bad marker", "< FPDU"},
		},
		{
			"no Reply but something else",
			[]piece{ok[0], {dir: decode.FromAccepter, b: []byte("HTTP/1.1 400")}, {dir: decode.FromOpener, b: send}},
			[]string{"MPA Request", "12 octets not decoded !! bad MPA startup frame: no key", "Send"},
		},
		{
			"two Requests",
			[]piece{ok[0], {dir: decode.FromAccepter, b: ok[0].b}},
			[]string{"MPA Request", "MPA Request rev=1 flags=0x40(C) pdlength=0 !! bad MPA startup frame: key of the opposite frame"},
		},
		{
			"cut in a startup frame",
			[]piece{{dir: decode.FromOpener, b: ok[0].b[:19]}},
			[]string{"19 octets not decoded !! incomplete frame at the end"},
		},
		{
			"cut in an FPDU", append(startup(true), piece{dir: decode.FromOpener, b: send[:31]}),
			[]string{"MPA Request", "MPA Reply", "31 octets not decoded !! incomplete frame at the end"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := say(tt.pieces, nil, whole)
			if len(lines) != len(tt.want) {
				t.Fatalf("%q, want %q", lines, tt.want)
			}
			for i := range lines {
				if !strings.Contains(lines[i], tt.want[i]) {
					t.Errorf("%q, want %q", lines[i], tt.want[i])
				}
			}
		})
	}
}

func TestHole(t *testing.T) {
	var lines []string
	c := decode.NewConn(nil, func(ev *decode.Event) { lines = append(lines, ev.String()) })
	for _, p := range startup(true) {
		c.Octets(p.dir, p.b, decode.Stamp{Frame: 1})
	}
	c.Octets(decode.FromOpener, []byte{0, 23}, decode.Stamp{Frame: 2})
	c.Hole(decode.FromOpener, 30, decode.Stamp{Frame: 3})
	c.Octets(decode.FromOpener, []byte{1, 2, 3}, decode.Stamp{Frame: 4})
	c.Close(decode.FromOpener, false, decode.Stamp{Frame: 5})
	c.Close(decode.FromOpener, false, decode.Stamp{Frame: 6})
	c.Octets(decode.FromOpener, []byte{1, 2, 3}, decode.Stamp{Frame: 7})
	c.Hole(decode.FromOpener, 1, decode.Stamp{Frame: 7})
	want := []string{
		"2 c0 > 2 octets not decoded !! incomplete frame at the end",
		"3 c0 > 0 octets not decoded !! octets missing from the capture: 30",
		"4 c0 > 3 octets not decoded !! incomplete frame at the end",
		"5 c0 > FIN",
	}
	if len(lines) != 2+len(want) {
		t.Fatalf("%q", lines)
	}
	for i, w := range want {
		if strings.TrimLeft(lines[2+i], " ") != w {
			t.Errorf("%q, want %q", lines[2+i], w)
		}
	}
}

// TestMarkers: a direction whose peer asked for markers (RFC 5044 Section 4.3); here a marker before the first
// FPDU and one between the two.
func TestMarkers(t *testing.T) {
	pieces := startup(true)
	pieces[1].b, _ = (&mpa.Reply{Frame: mpa.Frame{Rev: 1, Markers: true}}).Append(nil)
	first := append(unhex(t, "0000000001f6414300000000000000000000000100000000"), make([]byte, 484)...)
	first = append(first, unhex(t, "a09bb55b")...)
	second := unhex(t, "00000000001741430000000000000000000000020000000048454c4c4f000000a078bd59")
	bad := append([]byte(nil), second...)
	bad[30] ^= 1
	third := mpa.AppendFPDU(nil, append([]byte{0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0}, "bye"...), true)
	for _, tt := range []struct {
		name string
		last []byte
		want string
	}{
		{"good", second, "ulpdulength=23 crc=ok markers=4 Send qn=0 msn=2 mo=0 len=5 last"},
		{"bad CRC", bad, "ulpdulength=23 crc=bad markers=4 Send qn=0 msn=2 mo=0 len=5 last !! bad CRC: mpa: CRC error: got 0x59bd78a0, want 0x"},
	} {
		for name, cut := range map[string]func([]byte) [][]byte{"whole": whole, "octets": func(b []byte) (cut [][]byte) {
			for i := range b {
				cut = append(cut, b[i:i+1])
			}
			return cut
		}} {
			said := append(append([]piece(nil), pieces...), piece{dir: decode.FromOpener, b: first}, piece{dir: decode.FromOpener, b: append(tt.last, third...)})
			lines := say(said, nil, cut)
			if len(lines) != 5 || !strings.Contains(lines[3], tt.want) ||
				!strings.HasSuffix(lines[2], "ulpdulength=502 crc=ok markers=4 Send qn=0 msn=1 mo=0 len=484 last") ||
				!strings.HasSuffix(lines[4], "ulpdulength=21 crc=ok Send qn=0 msn=3 mo=0 len=3 last") {
				t.Errorf("%s, %s:\n%s", tt.name, name, strings.Join(lines, "\n"))
			}
		}
	}
}

// TestEveryFrame: every frame of every capture decodes to the last octet, except those that
// testdata/illegal-frames.tsv lists with a reason; and those must say what is wrong with them.
func TestEveryFrame(t *testing.T) {
	illegal := readTable(t, "../../testdata/illegal-frames.tsv", 4)
	for _, file := range captures(t) {
		name := filepath.Base(file)
		decodeFile(t, file, func(ev *decode.Event) {
			if ev.Err == nil {
				return
			}
			r := row{name, strconv.Itoa(ev.Frame)}
			want, ok := illegal[r]
			if !ok || !strings.HasPrefix(ev.Err.Error(), want[0]) {
				t.Errorf("%s: want %q: %v", name, want, ev)
			}
			delete(illegal, r)
		})
	}
	for r := range illegal {
		t.Errorf("nothing wrong with %v", r)
	}
}

// TestEveryOctet: the events of a direction cover its stream without gap or overlap.
func TestEveryOctet(t *testing.T) {
	for _, file := range captures(t) {
		next := make(map[*decode.ConnInfo]*[2]uint64)
		decodeFile(t, file, func(ev *decode.Event) {
			n := next[ev.Conn]
			if n == nil {
				n = new([2]uint64)
				next[ev.Conn] = n
			}
			if ev.Offset != n[ev.Dir] || ev.Len != len(ev.Raw) {
				t.Errorf("%s: at octet %d, the event before ended at %d: %v", file, ev.Offset, n[ev.Dir], ev)
			}
			n[ev.Dir] += uint64(ev.Len)
			if ev.First > ev.Frame || ev.First == 0 {
				t.Errorf("%s: begins in packet %d: %v", file, ev.First, ev)
			}
		})
	}
}

// TestEveryRPC: every NFS and MOUNT message is decoded to its last octet, including chunks, every reply has
// its call, and every call with chunks was seen whole.
func TestEveryRPC(t *testing.T) {
	messages, chunked := 0, 0
	for _, file := range captures(t) {
		if name := filepath.Base(file); name == "d-mpa-bad.pcap" || name == "g-mpareply.pcap" {
			continue // see illegal-frames.tsv
		}
		decodeFile(t, file, func(ev *decode.Event) {
			r := ev.RPC
			if r == nil {
				return
			}
			messages++
			if r.Err != nil || r.IsReply && r.CallFrame == 0 || r.Name == "" {
				t.Errorf("%s: %v: %v", file, ev, r.Err)
			}
			ours := r.Prog == nfs3.Program && r.Vers == nfs3.Version || r.Prog == mount3.Program
			if ours && r.Whole && r.Message == nil && (!r.IsReply || r.Success()) {
				t.Errorf("%s: not decoded: %v", file, ev)
			}
			if r.Pulled {
				chunked++
			}
			if ours && !r.Whole && (r.IsReply || len(ev.Header.Read) == 0) {
				t.Errorf("%s: not whole: %v", file, ev)
			}
		})
	}
	if messages < 400 || chunked != 9 {
		t.Errorf("%d RPC messages, %d calls by Read chunks", messages, chunked)
	}
}

// readPackets feeds the packets of a file to a capture.
func readPackets(tb testing.TB, file string, c *decode.Capture) {
	tb.Helper()
	b, err := os.ReadFile(file)
	must(tb, err)
	for pkt, err := range decode.Packets(bytes.NewReader(b)) {
		must(tb, err)
		c.Packet(&pkt)
	}
}

// TestAllocs: bulk data costs less than one allocation per packet.
func TestAllocs(t *testing.T) {
	for _, name := range []string{"b-nfs3-read1m.pcap", "b-nfs3-write1m.pcap"} {
		packets := 0
		n := testing.AllocsPerRun(3, func() {
			c := decode.NewCapture(nil, func(*decode.Event) {})
			readPackets(t, pcapDir+"/"+name, c)
			c.Finish()
			packets = c.Stats.Packets
		})
		t.Logf("%s: %.0f allocations for %d packets", name, n, packets)
		if n > float64(packets) {
			t.Errorf("%s: %.0f allocations for %d packets", name, n, packets)
		}
	}
}

func BenchmarkCapture(b *testing.B) {
	const file = pcapDir + "/b-nfs3-read1m.pcap"
	st, err := os.Stat(file)
	must(b, err)
	b.SetBytes(st.Size())
	b.ReportAllocs()
	for b.Loop() {
		c := decode.NewCapture(nil, func(*decode.Event) {})
		readPackets(b, file, c)
		c.Finish()
	}
}

// TestProtected: a body that RPCSEC_GSS protects is not taken for arguments or results
// (RFC 2203 Section 5.3.2.2); one that it does not protect is.
func TestProtected(t *testing.T) {
	const xid = 77
	for service, gss := range []string{1: "none", 2: "integrity", 3: "privacy"} {
		if gss == "" {
			continue
		}
		protected := gss != "none"
		cred := xdr.AppendUint32(nil, 1) // version, then gss_proc, seq_num, service, handle
		for _, w := range []uint32{0, 5, uint32(service), 0} {
			cred = xdr.AppendUint32(cred, w)
		}
		header := func() []byte { return (&rpcrdma.Header{XID: xid, Vers: 1, Credit: 1}).Append(nil) }
		call := xdr.AppendCall(header(), &xdr.CallHeader{
			XID: xid, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcWrite),
			Cred: xdr.Auth{Flavor: xdr.RPCSECGSS, Body: cred},
		})
		reply := xdr.AppendReply(header(), &xdr.ReplyHeader{XID: xid})
		sealed := octetsOf(64)
		got := rpcs(exchange([][]byte{append(call, sealed...), append(reply, sealed...)}))
		if len(got) != 2 {
			t.Fatalf("%d messages", len(got))
		}
		for _, r := range got {
			if (r.Err == nil) != protected || r.Message != nil || string(r.Body) != string(sealed) || r.Name != "NFSv3 WRITE" || r.GSS != gss {
				t.Errorf("service %d, reply %t: %q, %v, %v", service, r.IsReply, r.Name, r.Err, r.Message)
			}
		}
	}
}

// TestEveryCompound: every COMPOUND of the captures is decoded to its last octet, and a reply has the
// operations of its call, up to the one that failed.
func TestEveryCompound(t *testing.T) {
	ops, moved := 0, 0
	for _, name := range []string{"c-nfs41.pcap", "c-nfs42-xattr.pcap"} {
		calls := make(map[uint32]string)
		decodeFile(t, pcapDir+"/"+name, func(ev *decode.Event) {
			if ev.RPC == nil || ev.RPC.Compound == nil {
				return
			}
			r, c := ev.RPC, ev.RPC.Compound
			if c.Err != nil || int(c.NumOps) != len(c.Ops) {
				t.Errorf("%s: %v: %v", name, ev, c.Err)
			}
			var names []string
			for _, op := range c.Ops {
				names = append(names, op.Name)
				moved += op.Moved
			}
			ops += len(names)
			said := strings.Join(names, " ")
			if !r.IsReply {
				calls[r.XID] = said
			} else if !strings.HasPrefix(calls[r.XID], said) || c.Status == 0 && calls[r.XID] != said {
				t.Errorf("%s: %v: answers %s", name, ev, calls[r.XID])
			}
		})
	}
	if ops < 400 || moved == 0 {
		t.Errorf("%d operations, %d octets of them in chunks", ops, moved)
	}
}

// TestNothingKept: at the end of every capture all memory is back in the budget, whatever the limits were.
func TestNothingKept(t *testing.T) {
	for _, opt := range []*decode.Options{nil, smallOptions, {MaxPlaced: 1, MaxCalls: 1, MaxConns: 1, MaxMessage: 1, MaxEarly: 1}} {
		for _, file := range captures(t) {
			c := decode.NewCapture(opt, func(*decode.Event) {})
			left, _ := c.Left()
			readPackets(t, file, c)
			c.Finish()
			if now, flows := c.Left(); now != left || flows != 0 {
				t.Errorf("%s: %d octets of %d left, %d flows", file, now, left, flows)
			}
		}
	}
}

// TestSmallMemory: with little memory, messages are decoded from what came inline, and nothing is made up.
func TestSmallMemory(t *testing.T) {
	c := decode.NewCapture(&decode.Options{MaxPlaced: 1000}, func(ev *decode.Event) {
		if ev.RPC == nil || ev.RPC.Err != nil {
			return
		}
		if ev.RPC.Whole && len(ev.RPC.Body) > 4096 {
			t.Errorf("whole: %v", ev)
		}
		if ev.RPC.Name == "" {
			t.Errorf("no name: %v", ev)
		}
	})
	readPackets(t, pcapDir+"/b-nfs3-write1m.pcap", c)
	c.Finish()
	if c.Stats != (decode.CaptureStats{Packets: 2245, TCP: 2245, Connections: 1}) {
		t.Errorf("%+v", c.Stats)
	}
}

// recordLog records a session of a commit log that appends n records of 100 octets.
func recordLog(t *testing.T, mode commitlog.Mode, n int) []byte {
	t.Helper()
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		memory := make(mem.Bytes, 20480+1024)
		w, err := capture.NewWriter(&file)
		must(t, err, commitlog.Create(memory, &commitlog.Options{Mode: mode}))
		log, err := commitlog.Open(memory)
		must(t, err)
		a, b := rdmaptest.Pipe()
		served := make(chan error)
		go func() {
			c := rdmap.Server(b, commitlog.Config(nil))
			if err := c.Handshake(ctx); err != nil {
				served <- err
				return
			}
			served <- log.Serve(ctx, c)
		}()
		p := commitlog.NewProducer(&commitlog.ProducerOptions{Verify: true})
		c := rdmap.Client(w.TapClient(a), p.Config(nil))
		must(t, c.Handshake(ctx), p.Attach(ctx, c))
		for i := range n {
			e, err := p.Begin(bytes.Repeat([]byte{byte(i)}, 100))
			must(t, err)
			_, err = e.Wait(ctx)
			r, err2 := log.Next(ctx)
			must(t, err, err2, log.Release(r.Seq))
		}
		p.Close()
		must(t, c.Close())
		<-served
		must(t, log.Close(context.Background()), w.Close())
	})
	return file.Bytes()
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCommit: what a session of a commit log does, step by step, including the filler at the end of the
// ring; and the same without the Answer, as far as it can be known.
func TestCommit(t *testing.T) {
	const n = 10 // of 128 octets each in a ring of 1024, less what the longest may take
	for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
		var kinds, asked, done []string
		var seqs []uint64
		fillers := 0
		info := new(decode.CommitInfo)
		for ev, err := range decode.Events(bytes.NewReader(recordLog(t, mode, n)), nil) {
			must(t, err)
			if ev.Err != nil {
				t.Error(ev)
			}
			m := ev.Commit
			if m == nil {
				continue
			}
			info = ev.Conn.Commit
			if m.Kind != decode.CommitHead && m.Kind != decode.CommitDone { // they come when they like
				kinds = append(kinds, m.Kind.String())
			}
			switch m.Kind {
			case decode.CommitFlush, decode.CommitVerify, decode.CommitTail, decode.CommitFlushTail:
				asked = append(asked, m.Kind.String())
			case decode.CommitDone:
				done = append(done, m.Request.String())
			default:
			}
			if m.Kind == decode.CommitDone && (m.Request == decode.CommitOther || m.RequestFrame >= ev.Frame) {
				t.Errorf("answers nothing: %v", ev)
			}
			for _, r := range m.Records {
				if r.Filler {
					fillers++
				} else {
					seqs = append(seqs, r.Seq)
				}
				if !r.Salted || !r.SumOK || !r.Filler && r.Len != 100 {
					t.Errorf("%+v", r)
				}
			}
		}
		each := []string{"write", "flush", "verify", "tail"}
		if mode == commitlog.Strict {
			each = append(each, "flush tail")
		}
		want := []string{"answer"}
		for range n {
			want = append(want, each...)
		}
		if !slices.Equal(done, asked) {
			t.Errorf("%v: done %q", mode, done)
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("%v: %q", mode, kinds)
		}
		if len(seqs) != n || seqs[0] != 1 || seqs[n-1] != n || info.Answer == nil || info.Producer != decode.FromOpener {
			t.Errorf("%v: records %d, %+v", mode, seqs, info)
		}
	}
}

// TestCommitUnannounced: a session whose Answer travelled elsewhere shows by its operations.
func TestCommitUnannounced(t *testing.T) {
	var kinds []decode.CommitKind
	answer := false
	c := decode.NewConn(nil, func(ev *decode.Event) {
		if ev.Commit != nil {
			kinds = append(kinds, ev.Commit.Kind)
			answer = answer || ev.Conn.Commit.Answer != nil
		}
	})
	for ev, err := range decode.Events(bytes.NewReader(recordLog(t, commitlog.WAL, 3)), nil) {
		must(t, err)
		if ev.Commit != nil && ev.Commit.Kind == decode.CommitAnswer {
			continue
		}
		c.Octets(ev.Dir, ev.Raw, decode.Stamp{Frame: ev.Frame})
	}
	if got := fmt.Sprint(kinds[:2]); got != "[tail done]" || answer || !slices.Contains(kinds, decode.CommitVerify) {
		t.Errorf("%v", kinds)
	}
}
