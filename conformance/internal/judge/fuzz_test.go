package judge_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
)

// tight makes every limit easy to reach.
var tight = &judge.Options{
	Decode:        &decode.Options{MaxEarly: 4096, MaxMessage: 2048, MaxPlaced: 8192, MaxCalls: 4, MaxConns: 3},
	MaxViolations: 3, MaxSTags: 2, MaxRequests: 3,
}

// FuzzJudge: no file makes the judge panic, and what it reports is consistent.
func FuzzJudge(f *testing.F) {
	files, err := filepath.Glob("../../testdata/pcaps/*.pcap")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 3000)])
	}
	for _, good := range []func() *twin.Trace{every, terminated, marked, p2p, busy} {
		b, err := good().Capture()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, _ := judge.File(bytes.NewReader(b), tight)
		kept := 0
		for _, c := range r.Connections {
			for id, n := range c.Counts {
				if _, ok := judge.Find(id); !ok || n < 1 {
					t.Fatalf("%d violations of %q", n, id)
				}
				kept += min(n, tight.MaxViolations)
			}
			if len(c.Unknown) > judge.MaxUnknown+8 {
				t.Fatalf("%d unknowns", len(c.Unknown))
			}
		}
		if len(r.Violations) > kept {
			t.Fatalf("%d violations, %d counted", len(r.Violations), kept)
		}
		for _, v := range r.Violations {
			if s := v.String(); v.Frame < 1 || strings.ContainsAny(s, "\n\r") {
				t.Fatalf("%q", s)
			}
		}
	})
}

// neighbour is the connection that is not changed: it breaks RDMAP-059.
func neighbour() *twin.Trace {
	t := terminated()
	twins["RDMAP-059"].mutate(t)
	return t
}

// verdict returns the report of the connection from the given port.
func verdict(t *testing.T, b []byte, port uint16) (all []string) {
	t.Helper()
	r, err := judge.File(bytes.NewReader(b), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		if v.Conn.Opener.Port() == port {
			all = append(all, v.Rule.ID+" "+v.Dir.String()+" "+v.Detail)
		}
	}
	return all
}

// FuzzNeighbour: whatever is changed in one connection of a capture, the verdict on the other one is
// the same. The input is a list of changes, four octets each: frame, what to do to it, where, and an octet.
func FuzzNeighbour(f *testing.F) {
	f.Add([]byte{5, 0, 1, 0x43, 7, 1, 0, 0, 9, 2, 0, 0, 3, 3, 0, 0})
	f.Add([]byte{2, 0, 0, 0xff, 2, 4, 0, 0})
	f.Add([]byte{0, 5, 17, 3, 1, 5, 16, 0x80})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 64 {
			return
		}
		touched := every()
		for ; len(script) >= 4; script = script[4:] {
			scramble(touched, script)
		}
		b, err := twin.Captures(touched, neighbour())
		if err != nil {
			t.Fatal(err)
		}
		got := verdict(t, b, 1001)
		if len(got) != 1 || !strings.HasPrefix(got[0], "RDMAP-059 <") {
			t.Fatalf("%q", got)
		}
	})
}

// scramble carries out one change.
func scramble(t *twin.Trace, how []byte) {
	if len(t.Frames) == 0 {
		return
	}
	i := int(how[0]) % len(t.Frames)
	f := t.Frames[i]
	flip := func(b []byte) []byte {
		if len(b) > 0 {
			b[int(how[2])%len(b)] ^= how[3]
		}
		return b
	}
	switch how[1] % 6 {
	case 0: // an octet, with a good CRC
		f.ULPDU = flip
	case 1:
		t.Drop(f)
	case 2:
		c := *f
		t.After(f, &c)
	case 3:
		t.Swap(f, t.Frames[(i+1)%len(t.Frames)])
	case 4:
		f.BadCRC = true
	case 5:
		f.Raw = flip(slices.Clone(octets(64)))
	}
}
