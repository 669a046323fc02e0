package engine_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

func TestSiwTerminates(t *testing.T) {
	for _, s := range siwTerminates {
		b := rdmaptest.Unhex(t, s.octets)
		x, err := verbs.ParseTerminate(b)
		if err != nil {
			t.Errorf("%s: %v", s.octets, err)
			continue
		}
		if x.Swapped() != s.want {
			t.Errorf("%s: read as %v, swapped %v, want %v", s.octets, x.Code, x.Swapped(), s.want)
		}
		if d := b[2]&2 != 0; d != (x.DDP != nil) {
			t.Errorf("%s: DDP header %x", s.octets, x.DDP)
		}
		if r := b[2]&4 != 0; r != (x.Read != nil) {
			t.Errorf("%s: Read Request header %x", s.octets, x.Read)
		}
		if s.want != x.Code && !strings.Contains(x.String(), s.want.String()) {
			t.Errorf("%s: String %q does not give siw's reading", s.octets, x.String())
		}
	}
}

// TestTerminatePrefixes: every prefix that cuts an announced part fails, and what follows the parts is ignored.
func TestTerminatePrefixes(t *testing.T) {
	for _, v := range []string{rdmaptest.Gold.TermRead, rdmaptest.Gold.TermSTag, rdmaptest.Gold.TermBuf} {
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

// TestTermMap: every violation of the three layers has a code that the documents register, and every registered code that
// we send is provoked by a script. The exceptions are listed here.
func TestTermMap(t *testing.T) {
	sent := map[verbs.TermCode]bool{
		engine.TermCode(2, 0, 3): true, // rdmap.TestBadMarker
		engine.TermCode(2, 0, 6): true, // mpa.TestReplyMatrix
		engine.TermCode(2, 0, 7): true, // rdmap.TestNoMatchingRTR
		engine.TermCode(0, 0, 0): true, // rdmap.TestSinkLost
	}
	for _, f := range must(filepath.Glob("testdata/script/*.txt"))(t) {
		s := newScript(t)
		s.run(string(must(os.ReadFile(f))(t)))
		maps.Copy(sent, s.sent)
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

// siwTerminates are the first octets of Terminates as siw of Linux 6.1 sends them, with their intended meaning (rdmap.md
// Section 12).
var siwTerminates = []struct {
	octets string
	want   verbs.TermCode // the swapped reading
}{
	{"02020000", verbs.TermCode{Layer: 2, EType: 0, Code: 2}},
	{"02060000", verbs.TermCode{Layer: 2, EType: 0, Code: 6}},
	{"21060000", verbs.TermCode{Layer: 1, EType: 2, Code: 6}},
	{"20050000", verbs.TermCode{Layer: 0, EType: 2, Code: 5}},
	{"20060000", verbs.TermCode{Layer: 0, EType: 2, Code: 6}},
	{"21010300" + "0000" + "414300000000000000070000000100000000", verbs.TermCode{Layer: 1, EType: 2, Code: 1}},
	{"21020300" + "0000" + "414300000000000000000000000100000000", verbs.TermCode{Layer: 1, EType: 2, Code: 2}},
	{"11000300" + "0010" + "c140112233440000000000000000", verbs.TermCode{Layer: 1, EType: 1, Code: 0}},
	{"10000700" + "0000" + "414100000000000000010000000100000000" +
		"aabbccdd000000000000200000001000112233440000000000001000", verbs.TermCode{Layer: 0, EType: 1, Code: 0}},
}
