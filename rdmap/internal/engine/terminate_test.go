package engine_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

func TestSiwTerminates(t *testing.T) {
	for _, s := range rdmaptest.SiwTerminates {
		b := rdmaptest.Unhex(t, s.Octets)
		x, err := verbs.ParseTerminate(b)
		if err != nil {
			t.Errorf("%s: %v", s.Octets, err)
			continue
		}
		if x.Swapped() != s.Want {
			t.Errorf("%s: read as %v, swapped %v, want %v", s.Octets, x.Code, x.Swapped(), s.Want)
		}
		if d := b[2]&2 != 0; d != (x.DDP != nil) {
			t.Errorf("%s: DDP header %x", s.Octets, x.DDP)
		}
		if r := b[2]&4 != 0; r != (x.Read != nil) {
			t.Errorf("%s: Read Request header %x", s.Octets, x.Read)
		}
		if s.Want != x.Code && !strings.Contains(x.String(), s.Want.String()) {
			t.Errorf("%s: String %q does not give siw's reading", s.Octets, x.String())
		}
	}
}

// TestTerminatePrefixes: every prefix that cuts an announced part fails, and what follows the parts is ignored.
func TestTerminatePrefixes(t *testing.T) {
	for _, v := range []string{rdmaptest.GoldTermRead, rdmaptest.GoldTermSTag, rdmaptest.GoldTermBuf} {
		full := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, v))[18:]
		for n := range len(full) {
			if _, err := verbs.ParseTerminate(full[:n]); !errors.Is(err, verbs.ErrTerminateShort) {
				t.Errorf("%d octets of %x: %v", n, full, err)
			}
		}
		x, err := verbs.ParseTerminate(append(bytes.Clone(full), 1, 2, 3))
		if err != nil || hex.EncodeToString(x.Append(nil)) != hex.EncodeToString(full) {
			t.Fatalf("%v, %x", err, x.Append(nil))
		}
		x.HasLength = false // a header implies it
		if got := x.Append(nil); !bytes.Equal(got, full) || x.Size() != len(full) {
			t.Errorf("without HasLength: %x, %d octets", got, x.Size())
		}
	}
}

// TestReservedBits: the 13 reserved bits are ignored on receipt; three of them have siw's meaning, but only if the length
// fits.
func TestReservedBits(t *testing.T) {
	for _, s := range []string{"01001fff", "010007ff", "0100e0ff" + "0010" + "c140112233440000000000000000" + strings.Repeat("00", 28)} {
		x, err := verbs.ParseTerminate(rdmaptest.Unhex(t, s))
		if err != nil || x.Code != (verbs.TermCode{Layer: 0, EType: 1, Code: 0}) {
			t.Errorf("%s: %v %v", s, x.Code, err)
		}
	}
}

// onConn connects a Conn with the settings of cfg to a Peer. It also returns an engine for the builders of violations, which
// has the regions of the Conn.
func onConn(t *testing.T, cfg engineConfig) (*halves, *rdmap.Conn, *rdmaptest.Peer) {
	t.Helper()
	none := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	if cfg.size == 0 {
		cfg.size = 1 << 16
	}
	a, b := rdmaptest.Pipe()
	x := rdmap.Client(a, &rdmap.Config{
		Startup:  rdmap.Startup{Plain: true, IRD: none(cfg.ird), ORD: none(cfg.ord), Extensions: cfg.ext},
		Receives: rdmap.Receives{Count: none(cfg.recvs), Size: cfg.size}, Handler: rdmaptest.NewCollector(),
	})
	errs := make(chan error, 1)
	go func() { errs <- x.Handshake(t.Context()) }()
	p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 64, ORD: 64}, nil)
	noErr(t, errors.Join(err, <-errs))
	t.Cleanup(func() { x.Abort(nil); <-x.Done(); b.Close() })
	go x.Serve()
	e := newEngine(cfg)
	e.snd.Table, e.conn = x.Table(), x
	return e, x, p
}

// extensionViolations are those of RFC 7306 and the commit draft (rdmap.md Section 4.2).
var extensionViolations = func() []violationTest {
	const all7306 = verbs.Ext7306
	atomic := func(access region.Access, to uint64, op byte) func(*testing.T, *halves) []byte {
		return func(t *testing.T, e *halves) []byte {
			u := retarget(t, goldFetchAdd, 8, own(t, e, 16, access), 1)
			u[18+3] = op
			binary.BigEndian.PutUint64(u[18+12:], to)
			return u
		}
	}
	ranged := func(op verbs.Opcode, access region.Access, to uint64, rest ...byte) func(*testing.T, *halves) []byte {
		return func(t *testing.T, e *halves) []byte {
			u := rdmaptest.Patch(t, goldFetchAdd, 1, 0x40|byte(op))[:18]
			u[13] = 1
			g := engine.Target{STag: own(t, e, 128, access), N: 64, To: to}
			return append(g.Append(u), rest...)
		}
	}
	const every = region.ReadSink<<1 - 1
	return []violationTest{
		{"atomic: misaligned", engineConfig{ird: 1, ext: all7306}, 0x0207<<16 | rdmaptest.WithHdr, atomic(region.Atomic, 4, 0)},
		{"atomic: no right", engineConfig{ird: 1, ext: all7306}, 0x0102<<16 | rdmaptest.WithHdr, atomic(every&^region.Atomic, 0, 0)},
		{"atomic: past the end", engineConfig{ird: 1, ext: all7306}, 0x0101<<16 | rdmaptest.WithHdr, atomic(region.Atomic, 16, 0)},
		{"atomic: TO wraps", engineConfig{ird: 1, ext: all7306}, 0x0104<<16 | rdmaptest.WithHdr, atomic(region.Atomic, 1<<64-4, 0)},
		{"atomic: Swap", engineConfig{ird: 1, ext: all7306}, 0x0206<<16 | rdmaptest.WithHdr, atomic(region.Atomic, 0, 1)},
		{"atomic: unknown STag", engineConfig{ird: 1, ext: all7306}, 0x0100<<16 | rdmaptest.WithHdr, patched(goldFetchAdd, 10, 0, 0, 0, 1)},
		{"atomic: another stream's STag", engineConfig{ird: 1, ext: all7306}, 0x0103<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
			return retarget(t, goldFetchAdd, 8, foreign(t, e), 1)
		}},
		{"atomic of 51 octets", engineConfig{ird: 1, ext: all7306}, 0x0207<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
			return rdmaptest.Patch(t, goldFetchAdd, 10, 0, 0, 0, 1)[:18+51]
		}},
		{"Immediate of 9 octets", engineConfig{recvs: 1, ext: all7306}, 0x0207<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
			return append(rdmaptest.Patch(t, rdmaptest.GoldImm, 10, 0, 0, 0, 1), 9)
		}},
		{"Atomic Response, none due", engineConfig{ext: all7306}, 0x1202<<16 | rdmaptest.WithHdr, patched(goldAtomicResp, 10, 0, 0, 0, 1)},
		{"Atomic Response, MSN 2", engineConfig{ord: 2, ext: all7306}, 0x1203<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
			for range 2 {
				e.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: 1, Atomic: &verbs.Atomic{}})
			}
			e.output()
			return rdmaptest.Patch(t, goldAtomicResp, 13, 2)
		}},
		{"Atomic Response, identifier", engineConfig{ord: 1, ext: all7306}, 0x02ff<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
			e.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: 1, Atomic: &verbs.Atomic{}})
			e.output()
			return rdmaptest.Patch(t, goldAtomicResp, 10, 0, 0, 0, 1)
		}},
		{"Atomic Response to a Read", engineConfig{ord: 2, ext: all7306}, 0x02ff<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
			reading(t, e)
			e.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: 1, Atomic: &verbs.Atomic{}})
			e.output()
			return rdmaptest.Patch(t, goldAtomicResp, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1)
		}},
		{"Flush without commit", engineConfig{ird: 1, ext: all7306}, 0x0206<<16 | rdmaptest.WithHdr, ranged(verbs.OpFlushRequest, every, 0, 0, 0, 0, 1)},
		{"Atomic Write without commit", engineConfig{ird: 1, ext: all7306}, 0x0206<<16 | rdmaptest.WithHdr, ranged(verbs.OpAtomicWriteRequest, every, 0, make([]byte, 8)...)},
		{"flush: no right", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0102<<16 | rdmaptest.WithHdr, ranged(verbs.OpFlushRequest, every&^region.FlushPersistent, 0, 0, 0, 0, 1)},
		{"flush: past the end", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0101<<16 | rdmaptest.WithHdr, ranged(verbs.OpFlushRequest, every, 65, 0, 0, 0, 1)},
		{"flush of 19 octets", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0207<<16 | rdmaptest.WithHdr, ranged(verbs.OpFlushRequest, every, 0, 0, 0, 0)},
		{"verify: no right", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0102<<16 | rdmaptest.WithHdr, ranged(verbs.OpVerifyRequest, every&^region.Verify, 0)},
		{"verify: another hash", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0207<<16 | rdmaptest.WithHdr, ranged(verbs.OpVerifyRequest, every, 0, 1, 2, 3, 4)},
		{"verify: hash of 5 octets", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0207<<16 | rdmaptest.WithHdr, ranged(verbs.OpVerifyRequest, every, 0, 1, 2, 3, 4, 5)},
		{"atomic write of 64 octets", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0207<<16 | rdmaptest.WithHdr, ranged(verbs.OpAtomicWriteRequest, every, 0, make([]byte, 8)...)},
	}
}()

// TestTerminatesOnWire breaks every rule as the peer of a whole connection, and compares the answer octet by octet: one
// Terminate, and the end of the stream. The upper layer is told the same. ADVERSARY 17.
func TestTerminatesOnWire(t *testing.T) {
	for _, tt := range slices.Concat(extensionViolations, violationTests) {
		t.Run(tt.name, func(t *testing.T) {
			e, x, p := onConn(t, tt.cfg)
			u := tt.build(t, e)
			if _, err := p.Conn.Write(append(e.wire, rdmaptest.FPDU(u)...)); err != nil {
				t.Fatal(err)
			}
			var quoted []byte
			if tt.word&0xffff != rdmaptest.NoParts {
				quoted = u
			}
			want := rdmaptest.ULPDU(t, rdmaptest.WantTerminate(tt.word, quoted, tt.word&0x2000 != 0))
			got, err := p.Next()
			for ; err == nil && got[1] != 0x47; got, err = p.Next() { // requests of x, answers to what was good
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v\n got %x, %v\nwant %x", x.Err(), got, err, want)
			}
			if u, err := p.Next(); err != io.EOF {
				t.Fatalf("then %x, %v", u, err)
			}
			p.Conn.Close()
			<-x.Done()
			pe, ok := errors.AsType[*verbs.ProtocolError](x.Err())
			if !ok {
				t.Fatalf("closed with %v", x.Err())
			}
			if told := pe.Terminate; !bytes.Equal(told.Append(nil), want[18:]) || told.Code != pe.Code {
				t.Errorf("the upper layer is told %x, the peer %x", told.Append(nil), want[18:])
			}
		})
	}
}

// TestTermMap: every violation of the three layers has a code that the documents register, and every registered code that
// we send has a test that provokes it. The exceptions are listed here.
func TestTermMap(t *testing.T) {
	sent := map[verbs.TermCode]bool{
		engine.TermCode(2, 0, 2): true, // TestBadCRCWins
		engine.TermCode(2, 0, 3): true, // TestBadMarker
		engine.TermCode(2, 0, 6): true, // mpa.TestReplyMatrix
		engine.TermCode(2, 0, 7): true, // TestNoMatchingRTR
		engine.TermCode(0, 0, 0): true, // TestSinkLost
	}
	for _, v := range slices.Concat(extensionViolations, violationTests) {
		sent[verbs.TermCode{Layer: uint8(v.word >> 28), EType: uint8(v.word>>24) & 15, Code: uint8(v.word >> 16)}] = true
	}
	never := map[verbs.TermCode]string{
		engine.TermCode(0, 1, 0xff): "every protection error has a better code",
		engine.TermCode(0, 2, 0x08): "no error here reaches beyond its stream",
		engine.TermCode(0, 2, 0x09): "the same as 0x0/0x1/0x09, which is sent",
		engine.TermCode(2, 0, 0x01): "there is no connection to send it on",
		engine.TermCode(2, 0, 0x04): "there is no full operation to send it in",
		engine.TermCode(2, 0, 0x05): "a startup that fails here is refused, or closed",
	}
	for n := range 3 << 12 {
		code := engine.TermCode(uint8(n>>12), uint8(n>>8)&15, uint8(n))
		anyCode := code.Layer == verbs.LayerRDMAP && code.EType == 0 || code.Layer == verbs.LayerDDP && code.EType == 3
		if _, ok := never[code]; code.Registered() && !anyCode && ok == sent[code] {
			t.Errorf("%v: sent %v, and never sent %v", code, sent[code], ok)
		}
	}
	for code := range sent {
		if !code.Registered() {
			t.Errorf("%v is sent and not registered", code)
		}
	}
	for v := range engine.NumViolations {
		if c := engine.Violations[v].Code; !sent[c] {
			t.Errorf("%q: %v is provoked by no test", engine.Violations[v].Text, c)
		}
	}
	for v := ddp.LocalCatastrophic; v <= ddp.Interleaved; v++ {
		err := &ddp.Error{Violation: v}
		err.Layer, err.EType, err.Code = v.Code()
		if p := engine.ProtocolError(err, nil); !sent[p.Code] || p.Section == "" || p.Terminate == nil || !errors.Is(p, err) {
			t.Errorf("%v: %+v", v, p)
		}
	}
	for c := mpa.CodeClosed; c <= mpa.CodeRTR; c++ {
		p := engine.ProtocolError(&mpa.Error{Code: c}, nil)
		if _, unsent := never[p.Code]; unsent != (p.Terminate == nil) && c != mpa.CodeLocal || !p.Code.Registered() {
			t.Errorf("%v: %+v", c, p)
		}
	}
	if p := engine.ProtocolError(rdmaptest.ErrTest, nil); p.Code != (verbs.TermCode{}) || p.Terminate == nil {
		t.Errorf("an error of no layer: %+v", p)
	}
}
