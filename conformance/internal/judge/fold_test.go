package judge_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// heard is what one side said at a time: a startup frame, an FPDU or an end.
type heard struct {
	dir   decode.Dir
	kind  decode.Kind
	raw   []byte
	reset bool
}

// listen returns the octets of a conversation, frame by frame.
func listen(t *Trace) (all []heard) {
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
	flips, noticed := 0, 0
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
					if flips++; len(vs) > 0 {
						noticed++
					}
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
	if noticed*100 < flips*60 { // the others are in data, or are what a sender may say as well
		t.Errorf("%d of %d flipped bits are noticed", noticed, flips)
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
func someNFS(crc bool) *Trace {
	r := NewRPC()
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
		r := NewRPC()
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
			if v.Dir == I {
				got = append(got, v.Rule.ID)
			}
		}
		if want := []string{"DDP-002", "RPCRDMA-064"}; !slices.Equal(got, want) {
			t.Errorf("CRC %t: %v, want %v", crc, got, want)
		}
	}
}

// TestCases: what the twins do not cover.
func TestCases(t *testing.T) {
	for _, tt := range []struct {
		name   string
		good   func() *Trace
		mutate func(*Trace)
		want   []string
	}{
		{"FIN inside a tagged message", every, func(t *Trace) {
			w := t.Write(I, 0x4400, 0, octets(8))
			w.Seg.Last = false
			t.Drop(w)
			t.Before(t.Frames[len(t.Frames)-2], w)
		}, []string{"DDP-012"}},
		{"FIN inside a message, after a Terminate", terminated, the(verbs.OpSend, 1, func(f *Frame) { f.Seg.Last = false }), []string{"RDMAP-056"}},
		{"another STag to invalidate in the second segment", every, func(t *Trace) {
			t.Segment = 4
			last := t.Frames[len(t.Frames)-2:]
			t.Drop(last...)
			t.SendInvalidate(I, 0x77, octets(8)).Seg.ULP = 0x78
			t.Close()
		}, []string{"DDP-008"}},
		{"RST inside a frame", usual, func(t *Trace) {
			t.Nth(verbs.OpSend, 1).Cut = 5
			t.Frames[len(t.Frames)-1].End = RST
		}, nil},
		{"a frame damaged on the way", every, the(verbs.OpSend, 0, func(f *Frame) {
			f.BadCRC, f.Seg.MSN, f.Seg.Control = true, 77, 0xff
		}), []string{"MPA-030", "MPA-034"}},
		{"a warning hides no error", busy, func(t *Trace) {
			the(verbs.OpReadResponse, 0, func(f *Frame) { f.Seg.Control |= 0x20 })(t)
			grow(verbs.OpReadResponse, 4)(t)
		}, []string{"RDMAP-002", "RDMAP-033"}},
		{"an Invalidate STag in a commit request, where the draft is silent", every, the(verbs.OpAtomicWriteRequest, 0, func(f *Frame) {
			f.Seg.ULP = 1
		}), nil},
		{"a Read of nothing, answered with whatever STag", usual, func(t *Trace) {
			r := read(0)
			r.Size = 0
			t.Frames = t.Frames[:4]
			t.ReadRequest(I, r)
			t.ReadResponse(R, r).Seg.STag = 9
			t.Close()
		}, nil},
		{"octets after a Reply that rejects", onlyStartup, func(t *Trace) {
			t.Frames[1].Startup.Rejected = true
			t.Before(t.Frames[2], &Frame{Dir: I, Raw: octets(40)})
		}, nil},
		{"FPDUs of both sides after a Reply that rejects", usual, ofReply(func(s *Startup) { s.Rejected = true }), []string{"MPA-022"}},
		{"an octet after the Request", usual, func(t *Trace) {
			t.Before(t.Frames[1], &Frame{Dir: I, Raw: []byte{0}})
		}, []string{"MPA-010"}},
		{"markers that were asked for and do not come", usual, ofReply(func(s *Startup) { s.Flags |= 0x80 }), []string{"MPA-040"}},
		{"the Request twice", onlyStartup, func(t *Trace) {
			t.Before(t.Frames[2], &Frame{Dir: I, Raw: []byte("MPA ID Req Frame\x00\x01\x00\x00")})
		}, []string{"MPA-001"}},
		{"half a frame before the Reply, and none after it", usual, func(t *Trace) {
			t.Before(t.Frames[1], &Frame{Dir: I, Raw: []byte{0}})
			t.Drop(t.Nth(verbs.OpSend, 0))
		}, []string{"MPA-010"}},
		{"an empty Send as RTR, where a Write was offered", p2p, func(t *Trace) {
			t.Nth(verbs.OpWrite, 0).Seg = ddp.Segment{Last: true, DV: 1, Control: 0x43}
			t.Renumber()
		}, []string{"MPA-020"}},
		{"Immediate Data as RTR", p2p, func(t *Trace) {
			f := t.Nth(verbs.OpWrite, 0)
			f.Seg, f.Payload = ddp.Segment{Last: true, DV: 1, Control: 0x48}, octets(8)
			t.Renumber()
		}, []string{"MPA-020"}},
		{"another queue inside a message", every, func(t *Trace) {
			x := t.Nth(verbs.OpReadRequest, 1)
			t.Drop(x)
			t.Before(t.Nth(verbs.OpSend, 3), x)
		}, []string{"DDP-011", "DDP-007"}},
		{"MSN and MO ahead inside a message", every, the(verbs.OpSend, 3, func(f *Frame) { f.Seg.MSN, f.Seg.MO = f.Seg.MSN+1, 0 }), []string{"DDP-011"}},
		{"a Reply that offers no RTR, and so no RTR", p2p, ofReply(func(s *Startup) { s.Word.RTR = 0 }), []string{"MPA-019"}},
		{"0x3fff is no depth", unasked, func(t *Trace) {
			t.Frames = t.Frames[:4]
			for n := range uint32(9) {
				t.ReadRequest(R, read(n))
			}
			t.Close()
		}, nil},
	} {
		trace := tt.good()
		tt.mutate(trace)
		var got []string
		for _, v := range judged(trace, new(twinOf)) {
			got = append(got, v.Rule.ID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestForeignConnection: octets of another protocol that look like MPA for a moment are not reported.
func TestForeignConnection(t *testing.T) {
	trace := usual()
	trace.Middle = true
	trace.Frames[1].Startup.Flags = 0x08
	trace.Frames = []*Frame{trace.Frames[1], {Dir: I, Raw: octets(200)}}
	b := judge.NewBuilder(nil)
	trace.Play(nil, b.Event)
	if r := b.Report(); len(r.Connections) > 0 || len(r.Violations) > 0 {
		t.Errorf("%v, %v", r.Connections, r.Violations)
	}
}

// TestHoles: a judge accuses nobody of what the capture lacks. Any frame of a good conversation may be
// missing, and the whole beginning.
func TestHoles(t *testing.T) {
	for _, good := range []func() *Trace{every, terminated, marked, p2p, busy, crossed} {
		for i, f := range good().Frames {
			if f.End != NoEnd {
				continue
			}
			hole := good()
			hole.Frames[i] = &Frame{Dir: f.Dir, Lost: 100}
			for _, v := range judged(hole, new(twinOf)) {
				t.Errorf("frame %d missing: %v", i+1, v)
			}
			late := good()
			late.Frames, late.Middle = late.Frames[i:], true
			for _, v := range judged(late, new(twinOf)) {
				t.Errorf("begins with frame %d: %v", i+1, v)
			}
		}
	}
}

// TestEndless: captures that end anywhere, and connections that are reset, cause no violations either.
func TestEndless(t *testing.T) {
	for _, good := range []func() *Trace{every, terminated, marked, p2p, busy, crossed} {
		for i := range good().Frames {
			short := good()
			short.Frames = short.Frames[:i]
			for _, v := range judged(short, new(twinOf)) {
				t.Errorf("the capture ends before frame %d: %v", i+1, v)
			}
			for _, dir := range []decode.Dir{I, R} {
				short.Frames = append(short.Frames[:i:i], &Frame{Dir: dir, End: RST})
				for _, v := range judged(short, new(twinOf)) {
					t.Errorf("reset before frame %d: %v", i+1, v)
				}
			}
		}
	}
}

// TestAfterHoles: violations of a single frame are also found in captures that begin in the middle or have a
// hole.
func TestAfterHoles(t *testing.T) {
	for _, i := range []int{2, 5, 9} {
		hole, late := every(), every()
		hole.Frames[i] = &Frame{Dir: hole.Frames[i].Dir, Lost: 48}
		late.Frames, late.Middle = late.Frames[i:], true
		for _, trace := range []*Trace{hole, late} {
			grow(verbs.OpFlushRequest, -4)(trace)
			got := judged(trace, new(twinOf))
			if len(got) != 1 || got[0].Rule.ID != "RDMAP-014" {
				t.Errorf("hole at frame %d: %v", i+1, got)
			}
		}
	}
}

// TestPositionsCountedOtherwise: RFC 5666 Section 3.9 does not say where positions count from, so nobody is accused
// of padding that does not fit ours.
func TestPositionsCountedOtherwise(t *testing.T) {
	for _, pads := range []int{0, 4, 32, 64, 128} {
		r := NewRPC()
		ccp(r)
		x := r.NFS(nfs3.ProcWrite, WriteArgs(200), WriteRes(200))
		at := len(x.Call.Body) - 200
		x.Call.Body = slices.Insert(x.Call.Body, at, make([]byte, pads)...)
		x.Call.Header.Type, x.Call.Header.Align, x.Call.Header.Thresh = rpcrdma.MsgTypeMsgP, 64, 200
		r.Do(x)
		y := r.NFS(nfs3.ProcRead, ReadArgs(200), ReadRes(200))
		y.Reply.Body = slices.Insert(y.Reply.Body, len(y.Reply.Body)-200, make([]byte, pads)...)
		y.Reply.Header.Type, y.Reply.Header.Align, y.Reply.Header.Thresh = rpcrdma.MsgTypeMsgP, 64, 200
		r.Do(y)
		for _, v := range judged(r.Trace, new(twinOf)) {
			t.Errorf("%d octets of pad: %v", pads, v)
		}
	}
}

// TestDonesAfterGrant: a grant that arrives while RDMA_DONEs are on their way out covers them, and as many
// calls as it says may follow. One more may not.
func TestDonesAfterGrant(t *testing.T) {
	for calls, want := range map[int]int{2: 0, 3: 1} {
		r := NewRPC()
		first := conf(r)
		x, done := pulledReply(r)
		first.Reply.Header.Credit, x.Reply.Header.Credit = 2, 2
		r.Do(first)
		r.Do(x)
		pull := Pull(x.Reply.Header.Read[0].Segment)
		r.ReadRequest(I, pull)
		r.ReadResponse(R, pull)
		r.Do(done)
		for range calls {
			r.Ask(r.Null())
		}
		if got := judged(r.Trace, new(twinOf)); len(got) != want || want > 0 && got[0].Rule.ID != "RPCRDMA-060" {
			t.Errorf("%d calls: %v", calls, got)
		}
	}
}
