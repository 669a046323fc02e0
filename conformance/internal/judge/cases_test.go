package judge_test

import (
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestCases: what the twins do not cover.
func TestCases(t *testing.T) {
	for _, tt := range []struct {
		name   string
		good   func() *twin.Trace
		mutate func(*twin.Trace)
		want   []string
	}{
		{"FIN inside a tagged message", every, func(t *twin.Trace) {
			w := t.Write(twin.I, 0x4400, 0, octets(8))
			w.Seg.Last = false
			t.Drop(w)
			t.Before(t.Frames[len(t.Frames)-2], w)
		}, []string{"DDP-012"}},
		{"FIN inside a message, after a Terminate", terminated, the(verbs.OpSend, 1, func(f *twin.Frame) { f.Seg.Last = false }), []string{"RDMAP-056"}},
		{"another STag to invalidate in the second segment", every, func(t *twin.Trace) {
			t.Segment = 4
			last := t.Frames[len(t.Frames)-2:]
			t.Drop(last...)
			t.SendInvalidate(twin.I, 0x77, octets(8)).Seg.ULP = 0x78
			t.Close()
		}, []string{"DDP-008"}},
		{"RST inside a frame", usual, func(t *twin.Trace) {
			t.Nth(verbs.OpSend, 1).Cut = 5
			t.Frames[len(t.Frames)-1].End = twin.RST
		}, nil},
		{"a frame damaged on the way", every, the(verbs.OpSend, 0, func(f *twin.Frame) {
			f.BadCRC, f.Seg.MSN, f.Seg.Control = true, 77, 0xff
		}), []string{"MPA-030", "MPA-034"}},
		{"a warning hides no error", busy, func(t *twin.Trace) {
			the(verbs.OpReadResponse, 0, func(f *twin.Frame) { f.Seg.Control |= 0x20 })(t)
			grow(verbs.OpReadResponse, 4)(t)
		}, []string{"RDMAP-002", "RDMAP-033"}},
		{"an Invalidate STag in a commit request, where the draft is silent", every, the(verbs.OpAtomicWriteRequest, 0, func(f *twin.Frame) {
			f.Seg.ULP = 1
		}), nil},
		{"a Read of nothing, answered with whatever STag", usual, func(t *twin.Trace) {
			r := read(0)
			r.Size = 0
			t.Frames = t.Frames[:4]
			t.ReadRequest(twin.I, r)
			t.ReadResponse(twin.R, r).Seg.STag = 9
			t.Close()
		}, nil},
		{"octets after a Reply that rejects", onlyStartup, func(t *twin.Trace) {
			t.Frames[1].Startup.Rejected = true
			t.Before(t.Frames[2], &twin.Frame{Dir: twin.I, Raw: octets(40)})
		}, nil},
		{"FPDUs of both sides after a Reply that rejects", usual, ofReply(func(s *twin.Startup) { s.Rejected = true }), []string{"MPA-022"}},
		{"an octet after the Request", usual, func(t *twin.Trace) {
			t.Before(t.Frames[1], &twin.Frame{Dir: twin.I, Raw: []byte{0}})
		}, []string{"MPA-010"}},
		{"markers that were asked for and do not come", usual, ofReply(func(s *twin.Startup) { s.Flags |= 0x80 }), []string{"MPA-040"}},
		{"0x3fff is no depth", unasked, func(t *twin.Trace) {
			t.Frames = t.Frames[:4]
			for n := range uint32(9) {
				t.ReadRequest(twin.R, read(n))
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
	trace.Frames = []*twin.Frame{trace.Frames[1], {Dir: twin.I, Raw: octets(200)}}
	b := judge.NewBuilder(nil)
	trace.Play(nil, b.Event)
	if r := b.Report(); len(r.Connections) > 0 || len(r.Violations) > 0 {
		t.Errorf("%v, %v", r.Connections, r.Violations)
	}
}
