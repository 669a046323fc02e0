package judge_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// heard is what one side said at a time: a startup frame, an FPDU or an end.
type heard struct {
	dir   decode.Dir
	kind  decode.Kind
	raw   []byte
	reset bool
}

// listen returns the octets of a conversation, frame by frame.
func listen(t *twin.Trace) (all []heard) {
	t.Play(nil, func(ev *decode.Event) {
		if ev.Kind != decode.KindOpen {
			all = append(all, heard{ev.Dir, ev.Kind, bytes.Clone(ev.Raw), ev.Reset})
		}
	})
	return all
}

// say judges octets, and returns the mistakes.
func say(all []heard) (out []*judge.Violation) {
	j := judge.New(nil, func(v *judge.Violation) { out = append(out, v) })
	c := decode.NewConn(nil, j.Event)
	for i, f := range all {
		at := decode.Stamp{Frame: i + 1}
		if f.kind == decode.KindClose {
			c.Close(f.dir, f.reset, at)
		} else {
			c.Octets(f.dir, f.raw, at)
		}
	}
	c.Finish()
	j.End()
	return slices.DeleteFunc(out, func(v *judge.Violation) bool { return v.Cause != nil })
}

// TestOneMistake: any single bit of a session that is wrong, CRCs being made again, is one violation of each
// side at most: that of the sender, and that of a receiver that carries on nevertheless. (It is not clear
// who did it if a length is wrong and octets are missing: then the other side may seem to answer to nothing.)
func TestOneMistake(t *testing.T) {
	for _, crc := range []bool{false, true} {
		good := listen(someNFS(crc))
		if vs := say(good); len(vs) > 0 {
			t.Fatalf("the good one: %v", vs)
		}
		for i, f := range good {
			for at := range min(len(f.raw), 120) {
				for _, bit := range []byte{1, 0x20, 0x80} {
					bad := slices.Clone(good)
					bad[i].raw = flipped(&f, at, bit, crc)
					var by [2]int
					vs := say(bad)
					for _, v := range vs {
						by[v.Dir]++
					}
					if by[0] > 1 || by[1] > 1 {
						t.Errorf("CRC %t, frame %d %v, octet %d ^ %#02x: %v", crc, i+1, f.dir, at, bit, vs)
					}
				}
			}
		}
	}
}

// flipped returns the octets of a frame with one bit changed.
func flipped(f *heard, at int, bit byte, crc bool) []byte {
	b := bytes.Clone(f.raw)
	if b[at] ^= bit; crc && f.kind == decode.KindFPDU && at < len(b)-mpa.CRCLen {
		b = mpa.AppendCRC(b[:len(b)-mpa.CRCLen], mpa.UpdateCRC(0, b[:len(b)-mpa.CRCLen]))
	}
	return b
}

// someNFS returns some NFS.
func someNFS(crc bool) *twin.Trace {
	r := twin.NewRPC()
	r.Segment = 2000
	r.Do(r.Null())
	r.Do(r.ReadFile(5001))
	r.Do(r.WriteFile(5001))
	r.Do(r.ReadDir())
	r.Do(r.ReadDir().LongReply())
	for range 3 {
		r.Do(r.Null())
	}
	for _, f := range r.Frames {
		if f.Startup != nil {
			f.Startup.CRC = crc
		}
	}
	return r.Close()
}

// TestWrongKey: a responder that begins with something else than a key is reported once, whatever follows.
func TestWrongKey(t *testing.T) {
	good := listen(someNFS(false))
	for i, f := range good {
		if f.kind == decode.KindStartup && f.dir == twin.R {
			good[i].raw = flipped(&f, 0, 1, false)
		}
	}
	if vs := say(good); len(vs) != 1 || vs[0].Rule.ID != "MPA-003" {
		t.Errorf("%v, want one MPA-003", vs)
	}
}

// TestConsequences: a report lists mistakes, and what follows from them below them.
func TestConsequences(t *testing.T) {
	s := someNFS(false)
	f := s.Nth(verbs.OpWrite, 1)
	f.Seg.STag ^= 0x100
	b := judge.NewBuilder(nil)
	s.Play(nil, b.Event)
	r := b.Report()
	if len(r.Violations) != 1 || len(r.Connections[0].Counts) != 1 {
		t.Fatalf("%v, want one mistake", r.Violations)
	}
	v := r.Violations[0]
	if v.Folded == 0 || len(v.Consequences) != v.Folded {
		t.Errorf("%v has no consequences", v)
	}
	for _, u := range v.Consequences {
		if u.Cause != v {
			t.Errorf("%v is not a consequence of %v", u, v)
		}
	}
	if got, want := fmt.Sprint(r.Connections[0].Counts), fmt.Sprint(map[string]int{v.Rule.ID: 1}); got != want {
		t.Errorf("counts %s, want %s", got, want)
	}
}

// TestTwoMistakes: a mistake long after another is one of its own, with CRCs and without.
func TestTwoMistakes(t *testing.T) {
	for _, crc := range []bool{false, true} {
		r := twin.NewRPC()
		x := r.GetAttr()
		r.Do(r.Null())
		r.Do(x)
		for range 6 {
			r.Do(r.GetAttr())
		}
		x = r.GetAttr()
		x.Call.Header.Credit = 0
		r.Do(x)
		for _, f := range r.Frames {
			if f.Startup != nil {
				f.Startup.CRC = crc
			}
		}
		r.Nth(verbs.OpSend, 2).Seg.DV = 2 // the first GETATTR
		var got []string
		for _, v := range judged(r.Trace, new(twinOf)) {
			if v.Dir == twin.I {
				got = append(got, v.Rule.ID)
			}
		}
		if want := []string{"DDP-002", "RPCRDMA-064"}; !slices.Equal(got, want) {
			t.Errorf("CRC %t: %v, want %v", crc, got, want)
		}
	}
}
