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
	"github.com/stag-rdma/stag/transport/commitlog"
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
		noErr(f, err)
		f.Add(b[:min(len(b), 3000)])
	}
	for _, good := range []func() *Trace{every, terminated, marked, p2p, busy} {
		b, err := good().Capture()
		noErr(f, err)
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
func neighbour() *Trace {
	t := terminated()
	twins["RDMAP-059"].mutate(t)
	return t
}

// verdict returns the report of the connection from the given port.
func verdict(t *testing.T, b []byte, port uint16) (all []string) {
	t.Helper()
	r, err := judge.File(bytes.NewReader(b), nil)
	noErr(t, err)
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
		b, err := Captures(touched, neighbour())
		noErr(t, err)
		got := verdict(t, b, 1001)
		if len(got) != 1 || !strings.HasPrefix(got[0], "RDMAP-059 <") {
			t.Fatalf("%q", got)
		}
	})
}

// scramble carries out one change.
func scramble(t *Trace, how []byte) {
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

// talks are good conversations of the upper layers.
func talks() []*Trace {
	rpc, old := NewRPC(), NewRPC()
	goodRPC(rpc)
	goodOld(old)
	return []*Trace{rpc.Trace, old.Trace, goodLog(commitlog.WAL), goodLog(commitlog.Strict)}
}

// FuzzUpper: whatever is changed in the messages of a good conversation, in frames that the lower layers
// accept, the judge does not panic, and reports only rules that exist. Four octets an edit: the frame, where
// in its payload (2), what is xor-ed there.
func FuzzUpper(f *testing.F) {
	f.Add(uint8(0), []byte{2, 0, 7, 1})
	f.Add(uint8(1), []byte{5, 0, 15, 3, 9, 0, 19, 255})
	f.Add(uint8(2), []byte{3, 0, 39, 1, 4, 0, 3, 1})
	f.Add(uint8(3), []byte{6, 0, 20, 1})
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		all := talks()
		talk := all[int(which)%len(all)]
		for ; len(edits) >= 4; edits = edits[4:] {
			p := talk.Frames[int(edits[0])%len(talk.Frames)].Payload
			if len(p) > 0 {
				p[(int(edits[1])<<8|int(edits[2]))%len(p)] ^= edits[3]
			}
		}
		j := judge.New(nil, func(v *judge.Violation) {
			if _, ok := judge.Find(v.Rule.ID); !ok || v.Frame < 1 || v.Detail == "" {
				t.Errorf("%v", v)
			}
		})
		talk.Play(nil, j.Event)
		j.End()
	})
}
