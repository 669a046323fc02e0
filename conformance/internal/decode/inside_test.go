package decode

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/xdr"
	"pgregory.net/rapid"
)

// What the tests need of the inside.

// Patience is for how many packets octets are waited for.
const Patience = patience

// GuessULP tells what a message may be of.
var GuessULP = guessULP

// Success reports whether a reply has results.
func (r *RPC) Success() bool { return r.success() }

// Plain returns r as if it had not come in an RDMA_MSGP.
func (r RPC) Plain() RPC { r.msgp = false; return r }

// Kept returns how many octets of a direction are kept, at how many places an FPDU might begin, and
// whether the direction is lost.
func (c *Conn) Kept(dir Dir) (octets, starts int, lost bool) {
	s := &c.sides[dir]
	return len(s.buf), len(s.sync.starts), s.phase == phaseLost
}

// Left returns the memory that is free, and the flows that are not over.
func (c *Capture) Left() (octets, flows int) { return c.mem.left, len(c.flows) }

// TestRanges compares a set of ranges with a slice of bools.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s ranges
		var model [64]bool
		for range rapid.IntRange(0, 20).Draw(t, "adds") {
			from := rapid.IntRange(0, 63).Draw(t, "from")
			to := rapid.IntRange(from, 64).Draw(t, "to")
			s.add(from, to)
			for i := from; i < to; i++ {
				model[i] = true
			}
		}
		for i, r := range s {
			if r[0] >= r[1] || i > 0 && s[i-1][1] >= r[0] {
				t.Fatalf("not ascending, disjoint and apart: %v", s)
			}
		}
		from := rapid.IntRange(0, 64).Draw(t, "test from")
		to := rapid.IntRange(from, 64).Draw(t, "test to")
		want := true
		for i := from; i < to; i++ {
			want = want && model[i]
		}
		if s.covers(from, to) != want {
			t.Fatalf("covers(%d, %d) of %v is %t", from, to, s, !want)
		}
	})
}

func TestRegionIndex(t *testing.T) {
	r := &region{seg: chunks.Segment{Handle: 7, Length: 100, Offset: 1<<64 - 100}}
	for _, tt := range []struct {
		tag ddp.STag
		to  uint64
		n   int
		off int
		ok  bool
	}{
		{7, 1<<64 - 100, 100, 0, true},
		{7, 1<<64 - 1, 1, 99, true},
		{7, 1<<64 - 1, 2, 0, false},
		{7, 1<<64 - 101, 1, 0, false},
		{7, 0, 0, 0, false},
		{8, 1<<64 - 100, 1, 0, false},
		{7, 1<<64 - 50, 51, 0, false},
	} {
		if off, ok := r.index(tt.tag, tt.to, tt.n); off != tt.off || ok != tt.ok {
			t.Errorf("%+v: %d, %t", tt, off, ok)
		}
	}
}

func TestBudget(t *testing.T) {
	mem := &budget{left: 10}
	r := &region{seg: chunks.Segment{Handle: 1, Length: 100}}
	r.place(0, []byte("abcdef"), mem)
	r.place(2, []byte("CD"), mem)
	r.place(6, []byte("ghijk"), mem) // one octet too many: nothing of it is kept
	if b, ok := r.bytes(0, 6); !ok || string(b) != "abCDef" || !r.full || mem.left != 4 {
		t.Errorf("%q, %d octets left", r.data, mem.left)
	}
	if _, ok := r.bytes(0, 7); ok || r.whole() {
		t.Error("octets that were not kept")
	}
	r.free(mem)
	if mem.left != 10 {
		t.Errorf("%d octets left", mem.left)
	}
}

// TestCallTable: replies that never come do not make the table grow.
func TestCallTable(t *testing.T) {
	var tab callTable
	mem := &budget{left: 100}
	tab.add(&call{xid: 0}, 8, mem)
	for i := range uint32(10000) {
		c := &call{xid: i + 1}
		c.offered(&chunks.Lists{Read: []chunks.ReadSegment{{Segment: chunks.Segment{Handle: 1, Length: 4}}}})
		tab.add(c, 8, mem)
		if i%3 > 0 {
			tab.remove(c, mem)
		}
		tab.remove(c, mem)
	}
	for i := range uint32(100) {
		tab.add(&call{xid: i}, 8, mem)
	}
	if len(tab.byXID) != 8 || len(tab.order) > 100 || len(tab.mem) != 0 {
		t.Errorf("%d calls, %d in order, %d tags", len(tab.byXID), len(tab.order), len(tab.mem))
	}
	for _, c := range tab.order {
		if c.xid < 92 && tab.byXID[c.xid] == c {
			t.Error(fmt.Sprint("the oldest did not go first: ", c.xid))
		}
	}
}

// TestEvidence: what proves that FPDUs begin at an offset.
func TestEvidence(t *testing.T) {
	send := func(msn byte, crc bool) []byte {
		return mpa.AppendFPDU(nil, append([]byte{0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, msn, 0, 0, 0, 0}, "hello"...), crc)
	}
	write := func(tag, to byte, last byte) []byte {
		return mpa.AppendFPDU(nil, append([]byte{0x81 | last, 0x40, 0, 0, 0, tag, 0, 0, 0, 0, 0, 0, 0, to}, "12345678"...), false)
	}
	for _, tt := range []struct {
		name       string
		b          [][]byte
		crc        bool
		ok, proved bool
	}{
		{"nothing", nil, false, true, false},
		{"a Send", [][]byte{send(1, false)}, false, true, false},
		{"a Send with a right CRC", [][]byte{send(1, true)}, false, true, true},
		{"a Send with a wrong CRC", [][]byte{send(1, false)}, true, false, false},
		{"two Sends", [][]byte{send(1, false), send(2, false)}, false, true, true},
		{"a Write", [][]byte{write(1, 0, 0)}, false, true, false},
		{"two Writes of nothing common", [][]byte{write(1, 0, 0), write(2, 0, 0)}, false, true, false},
		{"two segments of a Write", [][]byte{write(1, 0, 0), write(1, 8, 0)}, false, true, true},
		{"two Writes to one STag", [][]byte{write(1, 0, 0x40), write(1, 8, 0)}, false, true, false},
		{"five Writes", [][]byte{write(1, 0, 0x40), write(2, 0, 0x40), write(3, 0, 0x40), write(4, 0, 0x40), write(5, 0, 0)}, false, true, true},
		{"a Write, then zeros", [][]byte{write(1, 0, 0x40), make([]byte, 40)}, false, false, false},
	} {
		e, ok := weigh(slices.Concat(tt.b...), tt.crc)
		if ok != tt.ok || ok && e.proved() != tt.proved {
			t.Errorf("%s: %t, proved %t, %+v", tt.name, ok, e.proved(), e)
		}
	}
}

// TestExtensions: what each message says, from the test vectors of the engine; every
// prefix is too short.
func TestExtensions(t *testing.T) {
	for _, tt := range []struct {
		op      verbs.Opcode
		payload string
		want    string
	}{
		{verbs.OpImmediate, "0102030405060708", " | data=0102030405060708"},
		{verbs.OpImmediateSE, "0807060504030201", " | data=0807060504030201"},
		{
			verbs.OpAtomicRequest,
			"00000000" + "00000003" + "11223344" + "0000000000001000" + "0000000000000005" + "8000000000000000" +
				"0000000000000000" + "ffffffffffffffff",
			" | FetchAdd id=3 stag=11223344 to=0x1000 operand=0x5 mask=0x8000000000000000",
		},
		{
			verbs.OpAtomicRequest,
			"00000002" + "00000004" + "11223344" + "0000000000001000" + "0000000000000007" + "00000000000000ff" +
				"0000000000000005" + "ffffffffffffffff",
			" | CmpSwap id=4 stag=11223344 to=0x1000 operand=0x7 mask=0xff compare=0x5 compare_mask=0xffffffffffffffff",
		},
		{verbs.OpAtomicResponse, "00000004" + "0000000000000005", " | id=4 old=0x5"},
		{verbs.OpFlushRequest, "11223344" + "00010000" + "0000000000001000" + "00000003", " | stag=11223344 len=65536 to=0x1000 flags=0x03"},
		{verbs.OpFlushResponse, "", ""},
		{verbs.OpVerifyRequest, "11223344" + "00000020" + "0000000000001000", " | stag=11223344 len=32 to=0x1000 hash="},
		{verbs.OpVerifyResponse, "8a9136aa", " | hash=8a9136aa"},
		{verbs.OpAtomicWriteRequest, "11223344" + "00000008" + "0000000000001010" + "0102030405060708", " | stag=11223344 to=0x1010 data=0102030405060708"},
		{verbs.OpAtomicWriteResponse, "", ""},
	} {
		p, err := hex.DecodeString(tt.payload)
		if err != nil {
			t.Fatal(err)
		}
		var x Extension
		if !x.parse(tt.op, p) {
			t.Errorf("%v: %d octets are too short", tt.op, len(p))
		}
		var b strings.Builder
		if x.text(&b, tt.op); b.String() != tt.want {
			t.Errorf("%v: got %q, want %q", tt.op, b.String(), tt.want)
		}
		least := len(p)
		if tt.op == verbs.OpVerifyResponse {
			least = 1 // hashes differ in length
		}
		for n := range least {
			if x.parse(tt.op, p[:n]) {
				t.Errorf("%v: %d octets are enough", tt.op, n)
			}
		}
	}
}

// TestKeys: what is shown of arguments and results is on one line and bounded, whatever the names are.
func TestKeys(t *testing.T) {
	fh := nfs3.FileHandle("handle")
	where := nfs3.DirOpArgs{Dir: fh, Name: "a\n\"b"}
	for _, tt := range []struct {
		m    xdr.Message
		want string
	}{
		{nil, ""},
		{&nfs3.Void{}, ""},
		{&nfs3.HandleArgs{Handle: fh}, "fh=0x918020d9"},
		{&where, `fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.AccessArgs{Handle: fh, Access: 3}, "fh=0x918020d9 access=0x3"},
		{&nfs3.ReadArgs{Handle: fh, Offset: 1 << 40, Count: 5}, "fh=0x918020d9 offset=1099511627776 count=5"},
		{&nfs3.WriteArgs{Handle: fh, Offset: 7, Count: 5, Stable: 2}, "fh=0x918020d9 offset=7 count=5 stable=2"},
		{&nfs3.CommitArgs{Handle: fh, Offset: 7, Count: 5}, "fh=0x918020d9 offset=7 count=5"},
		{&nfs3.SetAttrArgs{Handle: fh}, "fh=0x918020d9"},
		{&nfs3.SetAttrArgs{Handle: fh, Attr: nfs3.SetAttr{
			SetMode: true, Mode: 0o640, SetUID: true, UID: 1, SetGID: true, GID: 2, SetSize: true, Size: 3,
			AtimeHow: nfs3.ServerTime, MtimeHow: nfs3.ClientTime, Mtime: nfs3.Time{Sec: 4, Nsec: 5},
		}, Guard: true, Ctime: nfs3.Time{Sec: 6}}, "fh=0x918020d9 mode=0640 uid=1 gid=2 size=3 atime=now mtime=4.000000005 guard=6.000000000"},
		{&nfs3.CreateArgs{Where: where}, `fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.MkdirArgs{Where: where}, `fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.MknodArgs{Where: where}, `fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.SymlinkArgs{Where: where, Path: "p"}, `fh=0x918020d9 name="a\n\"b" path="p"`},
		{&nfs3.RenameArgs{From: where, To: nfs3.DirOpArgs{Dir: fh, Name: "c"}}, `fh=0x918020d9 name="a\n\"b" to fh=0x918020d9 name="c"`},
		{&nfs3.LinkArgs{Handle: fh, Link: where}, `fh=0x918020d9 to fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.ReadDirArgs{Dir: fh, Cookie: 1, Count: 2}, "fh=0x918020d9 cookie=1 count=2"},
		{&nfs3.ReadDirPlusArgs{Dir: fh, Cookie: 1, DirCount: 2, MaxCount: 3}, "fh=0x918020d9 cookie=1 dircount=2 maxcount=3"},
		{&mount3.PathArgs{Path: strings.Repeat("x", 65)}, `path="` + strings.Repeat("x", 64) + `"... (65 octets)`},
		{&nfs3.ReadRes{Count: 3, EOF: true}, "count=3 eof=true"},
		{&nfs3.ReadRes{Status: 70}, ""},
		{&nfs3.WriteRes{Count: 3, Committed: 2}, "count=3 committed=2"},
		{&mount3.MountRes{Handle: fh}, "fh=0x918020d9"},
	} {
		if got := keys(tt.m); got != tt.want {
			t.Errorf("%T: %s, want %s", tt.m, got, tt.want)
		}
	}
}

// TestOperations: one operation per row, its arguments or results built from letters: digits are
// words, V and S as in walker, "x" an opaque of five octets.
func TestOperations(t *testing.T) {
	build := func(items string) (b []byte) {
		for _, c := range items {
			switch {
			case c >= '0' && c <= '9':
				b = xdr.AppendUint32(b, uint32(c-'0'))
			case c == 'q', c == 'V':
				b = xdr.AppendUint64(b, 7)
			case c == 'S':
				b = append(b, make([]byte, 16)...)
			default:
				b = xdr.AppendOpaque(b, []byte("hello"))
			}
		}
		return b
	}
	for _, tt := range []struct {
		name     string
		callback bool
		op       uint32
		status   int64 // -1: arguments
		items    string
	}{
		{name: "LOCK of a new owner", op: 12, status: -1, items: "20qq11S1qx"},
		{name: "LOCK of a known owner", op: 12, status: -1, items: "20qq0S1"},
		{name: "LOCK denied", op: 12, status: 10010, items: "qq2qx"},
		{name: "LOCK failed", op: 12, status: 10012},
		{name: "LOCKT denied", op: 13, status: 10010, items: "qq2qx"},
		{name: "OPEN, create exclusive by name", op: 18, status: -1, items: "120qx12V0x"},
		{name: "OPEN, create exclusive with attributes", op: 18, status: -1, items: "120qx13V211x5S"},
		{name: "OPEN, no create, by handle", op: 18, status: -1, items: "120qx04"},
		{name: "OPEN with a delegation to write", op: 18, status: 0, items: "S0qq00" + "2S01q000x"},
		{name: "OPEN with none and why", op: 18, status: 0, items: "S0qq0217" + "311"},
		{name: "SETATTR refused", op: 34, status: 22, items: "217"},
		{name: "SETCLIENTID in use", op: 35, status: 10017, items: "xx"},
		{name: "EXCHANGE_ID with SSV", op: 42, status: -1, items: "Vx1" + "2" + "1110" + "1x1x" + "33" + "1xxq2"},
		{name: "EXCHANGE_ID with SSV, answered", op: 42, status: 0, items: "q11" + "2" + "1110" + "1111" + "1x" + "qxx" + "1xxq2"},
		{name: "BACKCHANNEL_CTL", op: 40, status: -1, items: "1" + "3" + "0" + "11x00211" + "61xx"},
		{name: "GETDEVICEINFO too small", op: 47, status: 10005, items: "9"},
		{name: "LAYOUTGET", op: 50, status: 0, items: "0S" + "2" + "qq12x" + "qq12x"},
		{name: "LAYOUTRETURN of a file", op: 51, status: -1, items: "0111qqSx"},
		{name: "READDIR", op: 26, status: 0, items: "V" + "1qx0x" + "1qx217x" + "01"},
		{name: "COPY", op: 60, status: 0, items: "1S" + "q2V" + "11"},
		{name: "COPY from servers", op: 60, status: -1, items: "SSqqq11" + "3" + "1x" + "2x" + "3xx"},
		{name: "READ_PLUS", op: 68, status: 0, items: "1" + "2" + "0qx" + "1qq"},
		{name: "SECINFO", op: 33, status: 0, items: "3" + "1" + "6x01" + "0"},
		{name: "LISTXATTRS", op: 74, status: 0, items: "q2xx1"},
		{name: "CB_SEQUENCE", callback: true, op: 11, status: -1, items: "S1111" + "1S2" + "1111"},
		{name: "CB_LAYOUTRECALL", callback: true, op: 5, status: -1, items: "1111xqqS"},
		{name: "CB_OFFLOAD", callback: true, op: 15, status: -1, items: "xS0" + "0q2V"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := build(tt.items)
			var b []byte
			if tt.status >= 0 {
				b = xdr.AppendUint32(b, uint32(tt.status))
			}
			b = xdr.AppendOpaque(b, []byte("tag"))
			if tt.status < 0 {
				b = xdr.AppendUint32(b, 1)
				if tt.callback {
					b = xdr.AppendUint32(b, 0)
				}
			}
			b = xdr.AppendUint32(xdr.AppendUint32(b, 1), tt.op)
			if tt.status >= 0 {
				b = xdr.AppendUint32(b, uint32(tt.status))
			}
			b = append(b, body...)
			c := newCompound(b, tt.callback, tt.status >= 0, nil)
			if c.Err != nil || len(c.Ops) != 1 || len(c.Ops[0].Body) != len(body) || c.Tag != "tag" {
				t.Fatalf("%+v", c)
			}
			for n := range len(b) { // nothing is taken for more than it is
				if c := newCompound(b[:n], tt.callback, tt.status >= 0, nil); c.Err == nil {
					t.Fatalf("whole with %d of %d octets: %+v", n, len(b), c)
				}
			}
			c = newCompound(append(b, 0, 0, 0, 0), tt.callback, tt.status >= 0, nil)
			if !errors.Is(c.Err, ErrTrailing) {
				t.Errorf("with four octets more: %v", c.Err)
			}
		})
	}
}

// TestUnknownOperation: decoding stops where it must, and says so.
func TestUnknownOperation(t *testing.T) {
	b := xdr.AppendUint32(xdr.AppendOpaque(nil, nil), 2)
	for _, op := range []uint32{3, 24, 4711, 24} { // the count, then operations
		b = xdr.AppendUint32(b, op)
	}
	c := newCompound(b, false, false, nil)
	if len(c.Ops) != 2 || c.Ops[1].Name != "op-4711" || !errors.Is(c.Err, xdr.ErrRange) {
		t.Errorf("%+v", c)
	}
}

func TestNFS4Status(t *testing.T) {
	for code, want := range map[uint32]string{
		0: "NFS4_OK", 1: "NFS4ERR_PERM", 70: "NFS4ERR_STALE", 10001: "NFS4ERR_BADHANDLE", 10002: "nfsstat4(10002)",
		10018: "NFS4ERR_RESOURCE", 10044: "NFS4ERR_OP_ILLEGAL", 10063: "NFS4ERR_SEQ_MISORDERED",
		10073: "nfsstat4(10073)", 10087: "NFS4ERR_DELEG_REVOKED", 10096: "NFS4ERR_XATTR2BIG", 10097: "nfsstat4(10097)",
	} {
		if got := nfs4Status(code); got != want {
			t.Errorf("%d: %s, want %s", code, got, want)
		}
	}
}

// TestMoved: items that travel in chunks are skipped where they would be: arguments by the Positions in the
// unreduced call, results in the order of the Write chunks.
func TestMoved(t *testing.T) {
	const head = 40
	write := func(b []byte, n uint32) []byte { // WRITE without its data
		b = append(xdr.AppendUint32(b, 38), make([]byte, 16+8+4)...)
		return xdr.AppendUint32(b, n)
	}
	b := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendOpaque(nil, nil), 1), 3)
	b = write(b, 5)
	first := head + len(b)
	b = write(b, 8)
	second := head + len(b) + 8 // the first data and their pad
	b = append(write(b, 4), "data"...)
	at := func(pos int) chunks.ReadSegment { return chunks.ReadSegment{Position: uint32(pos)} }
	c := newCompound(b, false, false, movedArguments([]chunks.ReadSegment{at(first), at(second)}, head))
	if c.Err != nil || len(c.Ops) != 3 || c.Ops[0].Moved != 5 || c.Ops[1].Moved != 8 || c.Ops[2].Moved != 0 {
		t.Errorf("%+v", c)
	}

	b = xdr.AppendUint32(xdr.AppendOpaque(xdr.AppendUint32(nil, 0), nil), 3)
	for i, data := range []string{"", "data", ""} { // of three READs the second has its data inline
		for _, w := range []uint32{25, 0, 1, uint32(4 + i)} {
			b = xdr.AppendUint32(b, w)
		}
		if b = append(b, data...); i == 1 {
			b = append(b, 'x', 0, 0, 0)
		}
	}
	chunk := func(n uint32) chunks.WriteChunk { return chunks.WriteChunk{{Length: n}} }
	c = newCompound(b, false, true, movedResults([]chunks.WriteChunk{chunk(4), chunk(0), chunk(8)}))
	if c.Err != nil || len(c.Ops) != 3 || c.Ops[0].Moved != 4 || c.Ops[1].Moved != 0 || c.Ops[2].Moved != 6 {
		t.Errorf("%+v", c)
	}
}

// stringSink collects what an assembler delivers; holes are written as "<n>".
type stringSink struct{ bytes.Buffer }

func (s *stringSink) octets(b []byte, _ Stamp)                 { s.Write(b) }
func (s *stringSink) hole(n int, _ Stamp)                      { fmt.Fprintf(s, "<%d>", n) }
func (s *stringSink) conflict(n int, _ []byte, _ int, _ Stamp) { fmt.Fprintf(s, "!%d!", n) }

// push takes a segment like a flow of one direction, and finish the rest.
func (a *assembler) push(seq uint32, b []byte, to sink) {
	if now, later := a.place(seq, b); now {
		a.deliver(seq, b, Stamp{}, to)
	} else if later {
		a.keep(earlyData{seq: seq, b: b})
	}
	a.drain(a.limit, to)
}

func (a *assembler) drain(limit int, to sink) {
	for a.ready() || len(a.early) > 0 && a.held > limit {
		if !a.ready() {
			a.skip(a.early[0].seq, Stamp{}, to)
		}
		a.shift(to)
	}
}

func (a *assembler) finish(to sink) { a.drain(-1, to) }

func TestAssembler(t *testing.T) {
	type seg struct {
		seq uint32
		b   string
	}
	for _, tt := range []struct {
		name  string
		limit int
		segs  []seg
		want  string
	}{
		{"in order", 10000, []seg{{0, "abc"}, {3, "def"}}, "abcdef"},
		{"empty", 10000, []seg{{0, ""}, {0, "abc"}, {3, ""}}, "abc"},
		{"swapped", 10000, []seg{{0, "a"}, {4, "ef"}, {1, "bcd"}}, "abcdef"},
		{"retransmitted", 10000, []seg{{0, "abc"}, {0, "abc"}, {3, "def"}, {0, "abcdef"}}, "abcdef"},
		{"retransmitted in larger pieces", 10000, []seg{{0, "ab"}, {4, "ef"}, {0, "abcdefg"}}, "abcdefg"},
		{"early twice", 10000, []seg{{0, "a"}, {2, "c"}, {2, "cd"}, {2, "c"}, {1, "b"}}, "abcd"},
		{"overlap on both sides", 10000, []seg{{0, "abc"}, {6, "ghi"}, {2, "cdefgh"}}, "abcdefghi"},
		{"keep-alive probe", 10000, []seg{{0, "abc"}, {2, "x"}, {3, "def"}}, "abcdef"},
		{"hole at the end", 10000, []seg{{0, "abc"}, {5, "fgh"}, {9, "j"}}, "abc<2>fgh<1>j"},
		{"limit", 3 + earlyCost, []seg{{0, "abc"}, {5, "fgh"}, {9, "j"}, {10, "k"}}, "abc<2>fgh<1>jk"},
		{"first segment decides", 10000, []seg{{7, "abc"}, {10, "d"}}, "abcd"},
		{"far ahead, far behind, exactly between", 10000, []seg{{0, "a"}, {1<<30 + 2, "x"}, {1<<31 + 2, "x"}, {1<<31 + 1, "x"}, {1, "b"}}, "ab"},
		{"sent again otherwise", 10000, []seg{{0, "abcdef"}, {0, "abXdeY"}}, "abcdef!2!"},
		{"sent again in part, otherwise", 10000, []seg{{0, "abcdef"}, {4, "Xfgh"}}, "abcdef!1!gh"},
		{"sent again otherwise, both early", 10000, []seg{{0, "a"}, {2, "cd"}, {2, "cX"}, {3, "Yef"}, {1, "b"}}, "abcX!1!!1!ef"},
		{"wrap", 10000, []seg{{0xfffffffe, "ab"}, {2, "ef"}, {0, "cd"}}, "abcdef"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := assembler{limit: tt.limit}
			var out stringSink
			for _, s := range tt.segs {
				a.push(s.seq, []byte(s.b), &out)
			}
			a.finish(&out)
			if out.String() != tt.want || a.held != 0 || len(a.early) != 0 {
				t.Errorf("%q, %d octets held; want %q", out.String(), a.held, tt.want)
			}
		})
	}
}

// TestAssemblerAnyOrder: however a stream is cut, repeated and shuffled, it comes out unchanged.
func TestAssemblerAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "stream")
		isn := rapid.Uint32().Draw(t, "isn")
		type cut struct{ from, to int }
		var cuts []cut
		for at := 0; at < len(want); { // pieces that cover the stream
			n := rapid.IntRange(1, 40).Draw(t, "n")
			back := rapid.IntRange(0, min(at, 10)).Draw(t, "back")
			cuts = append(cuts, cut{at - back, min(at+n, len(want))})
			at += n
		}
		for range rapid.IntRange(0, 5).Draw(t, "repeats") {
			cuts = append(cuts, rapid.SampledFrom(cuts).Draw(t, "again"))
		}
		a := assembler{limit: 1 << 20}
		a.sync(isn)
		var out stringSink
		for _, c := range rapid.Permutation(cuts).Draw(t, "order") {
			a.push(isn+uint32(c.from), want[c.from:c.to], &out)
		}
		if !bytes.Equal(out.Bytes(), want) || a.held != 0 {
			t.Fatalf("%x, %d held; want %x", out.Bytes(), a.held, want)
		}
	})
}

// TestRecordParser: records cut anywhere, and writes that do not continue each other.
func TestRecordParser(t *testing.T) {
	record := append(rdmaptest.Hex(t, "00000005 00000002 0000000000000004 00000000000000c0 b2e736f3 68656c6c6f"), make([]byte, 31)...)
	filler := append(rdmaptest.Hex(t, "80000040 00000002 0000000000000005 0000000000000100 2b7e7197"), make([]byte, 36)...)
	b := slices.Concat(record, record, filler)
	for cut := range len(b) {
		p := recordParser{epoch: 2, salt: 0xee6e64bd81f7bc7f, salted: true}
		var got []CommitRecord
		write := func(at int, b []byte) {
			ev := &Event{DDP: &DDP{Payload: b}}
			ev.DDP.TO = uint64(at)
			got = append(got, p.write(ev)...)
		}
		write(832, b[:cut])
		write(832+cut, b[cut:])
		if len(got) != 3 || !got[0].SumOK || !got[1].SumOK || !got[2].SumOK || !got[2].Filler || got[2].Len != 64 || got[2].Offset != 960 {
			t.Fatalf("cut at %d: %+v", cut, got)
		}
		got = nil
		write(64, b[:cut])
		write(128+cut, b[cut:]) // a gap
		if len(got) > 3 || cut%64 != 0 && len(got) > cut/64+1 {
			t.Fatalf("with a gap at %d: %+v", cut, got)
		}
	}
}

// TestSkipUnsynced: octets that are given up before all that was seen are missing, not before the beginning.
func TestSkipUnsynced(t *testing.T) {
	var s stream
	s.flow = NewCapture(nil, func(*Event) {}).newFlow(netip.AddrPort{}, netip.AddrPort{})
	s.acknowledged(100, Stamp{Frame: 1})
	s.skip(150, Stamp{Frame: 2}, &s)
	if now, later := s.place(170, []byte("octets")); now || !later || s.next != 150 {
		t.Errorf("now %t, later %t, next %d", now, later, s.next)
	}
}
