package judge_test

import (
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// TestHoles: a judge accuses nobody of what the capture lacks. Any frame of a good conversation may be
// missing, and the whole beginning.
func TestHoles(t *testing.T) {
	for _, good := range []func() *twin.Trace{every, terminated, marked, p2p, busy, crossed} {
		for i, f := range good().Frames {
			if f.End != twin.NoEnd {
				continue
			}
			hole := good()
			hole.Frames[i] = &twin.Frame{Dir: f.Dir, Lost: 100}
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
	for _, good := range []func() *twin.Trace{every, terminated, marked, p2p, busy, crossed} {
		for i := range good().Frames {
			short := good()
			short.Frames = short.Frames[:i]
			for _, v := range judged(short, new(twinOf)) {
				t.Errorf("the capture ends before frame %d: %v", i+1, v)
			}
			for _, dir := range []decode.Dir{twin.I, twin.R} {
				short.Frames = append(short.Frames[:i:i], &twin.Frame{Dir: dir, End: twin.RST})
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
		hole.Frames[i] = &twin.Frame{Dir: hole.Frames[i].Dir, Lost: 48}
		late.Frames, late.Middle = late.Frames[i:], true
		for _, trace := range []*twin.Trace{hole, late} {
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
		r := twin.NewRPC()
		ccp(r)
		x := r.NFS(nfs3.ProcWrite, twin.WriteArgs(200), twin.WriteRes(200))
		at := len(x.Call.Body) - 200
		x.Call.Body = slices.Insert(x.Call.Body, at, make([]byte, pads)...)
		x.Call.Header.Type, x.Call.Header.Align, x.Call.Header.Thresh = rpcrdma.MsgTypeMsgP, 64, 200
		r.Do(x)
		y := r.NFS(nfs3.ProcRead, twin.ReadArgs(200), twin.ReadRes(200))
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
		r := twin.NewRPC()
		first := conf(r)
		x, done := pulledReply(r)
		first.Reply.Header.Credit, x.Reply.Header.Credit = 2, 2
		r.Do(first)
		r.Do(x)
		pull := twin.Pull(x.Reply.Header.Read[0].Segment)
		r.ReadRequest(twin.I, pull)
		r.ReadResponse(twin.R, pull)
		r.Do(done)
		for range calls {
			r.Ask(r.Null())
		}
		if got := judged(r.Trace, new(twinOf)); len(got) != want || want > 0 && got[0].Rule.ID != "RPCRDMA-060" {
			t.Errorf("%d calls: %v", calls, got)
		}
	}
}
