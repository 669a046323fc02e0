package judge_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// twinOf is how a rule is broken: a good conversation, and the one thing to change in it.
type twinOf struct {
	good   func() *twin.Trace
	mutate func(*twin.Trace)
	opt    *decode.Options
	setup  func(*judge.Judge) // makes the judge different
}

// twins holds the twins of all rules, by ID.
var twins = merged(mpaTwins, ddpTwins, rdmapTwins, acceptTwins)

// twinless are the layers whose twins have tests of their own: TestTwinsRPC, TestTwinsCommit.
var twinless = []string{"RPCRDMA", "RPC", "NFS", "COMMIT"}

func merged(all ...map[string]twinOf) map[string]twinOf {
	m := make(map[string]twinOf)
	for _, t := range all {
		maps.Copy(m, t)
	}
	return m
}

// judged returns the violations in a conversation, without consequences.
func judged(t *twin.Trace, tw *twinOf) (all []*judge.Violation) {
	j := judge.New(nil, func(v *judge.Violation) { all = append(all, v) })
	if tw.setup != nil {
		tw.setup(j)
	}
	t.Play(tw.opt, j.Event)
	j.End()
	return slices.DeleteFunc(all, func(v *judge.Violation) bool { return v.Cause != nil || v.Withdrawn })
}

// TestTwins: each rule has a twin, a conversation that breaks it and nothing else; without
// the change that makes the twin it breaks nothing.
func TestTwins(t *testing.T) {
	for _, r := range judge.Rules() {
		tw, ok := twins[r.ID]
		if !ok && slices.Contains(twinless, r.Layer()) {
			continue // these two tests demand one for each of their rules
		}
		t.Run(r.ID, func(t *testing.T) {
			if !ok {
				t.Fatal("no twin")
			}
			trace := tw.good()
			for _, v := range judged(trace, &tw) {
				t.Errorf("the good one: %v", v)
			}
			trace = tw.good()
			tw.mutate(trace)
			vs := judged(trace, &tw)
			if !slices.ContainsFunc(vs, func(v *judge.Violation) bool { return v.Rule == r }) {
				t.Error("the twin does not break it")
			}
			for _, v := range vs {
				if v.Rule != r && !paired(v.Rule.ID, r.ID) {
					t.Errorf("the twin breaks another rule: %v", v)
				}
			}
		})
	}
	for id := range twins {
		if _, ok := judge.Find(id); !ok {
			t.Errorf("a twin of no rule: %s", id)
		}
	}
}

// octets returns n octets that differ.
func octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// read is a Read Request of 200 octets.
func read(n uint32) decode.ReadRequest {
	return decode.ReadRequest{SinkSTag: 0x1100 + ddp.STag(n), SinkTO: 4096, Size: 200, SourceSTag: 0x2200, SourceTO: 64}
}

// every returns a conversation with every message there is, some in several segments.
func every() *twin.Trace {
	t := twin.New().Startup()
	t.Send(twin.I, octets(21))
	t.Send(twin.R, octets(40))
	t.Segment = 64
	t.Send(twin.I, octets(150))
	t.Write(twin.R, 0x3300, 1<<40, octets(150))
	t.Untagged(twin.R, verbs.OpSendSE, octets(7))
	t.Read(twin.R, read(0))
	t.Read(twin.I, read(1))
	t.ReadRequest(twin.R, read(2))
	t.ReadRequest(twin.R, read(3))
	t.ReadResponse(twin.I, read(2))
	t.ReadResponse(twin.I, read(3))
	t.Segment = 0
	t.SendInvalidate(twin.R, 0x3300, octets(4))
	t.SendInvalidate(twin.R, 0x3301, nil)
	extensions(t)
	t.Send(twin.R, octets(1))
	return t.Close()
}

// extensions adds the messages of RFC 7306 and the commit draft.
func extensions(t *twin.Trace) {
	t.Immediate(twin.I, 1)
	t.Untagged(twin.R, verbs.OpImmediateSE, octets(8))
	t.Atomic(twin.I, verbs.AtomicFetchAdd, 77, 0x4400, 8)
	t.AtomicResponse(twin.R, 77)
	t.Atomic(twin.I, verbs.AtomicCmpSwap, 78, 0x4400, 8)
	t.ReadRequest(twin.I, read(4))
	t.AtomicResponse(twin.R, 78)
	t.ReadResponse(twin.R, read(4))
	t.Write(twin.I, 0x4400, 0, octets(64))
	t.Flush(twin.I, 0x4400, 64, 0)
	t.Verify(twin.I, 0x4400, 64, 0, []byte{1, 2, 3, 4})
	t.AtomicWrite(twin.I, 0x4400, 0, 9)
	t.FlushResponse(twin.R)
	t.VerifyResponse(twin.R, []byte{1, 2, 3, 4})
	t.AtomicWriteResponse(twin.R)
}

// terminated returns a conversation that ends by a Terminate of the responder, about the
// initiator's last Send: no receive was posted.
func terminated() *twin.Trace {
	t := twin.New().Startup()
	t.Send(twin.I, octets(20))
	bad := t.Send(twin.I, octets(30))
	t.Terminate(twin.R, &verbs.Terminate{
		Code:      verbs.TermCode{Layer: 1, EType: 2, Code: 0x02},
		HasLength: true, SegLen: 18 + 30, DDP: bad.Seg.Append(nil),
	})
	return t.Close()
}

// frames returns the frames that are segments of messages of an opcode.
func frames(t *twin.Trace, op verbs.Opcode) (all []*twin.Frame) {
	for n := 0; ; n++ {
		f := t.Nth(op, n)
		if f == nil {
			return all
		}
		all = append(all, f)
	}
}

// TestGood: the good conversations say what they are meant to.
func TestGood(t *testing.T) {
	seen := make(map[verbs.Opcode]bool)
	every().Play(nil, func(ev *decode.Event) {
		if ev.Err != nil {
			t.Errorf("%v", ev)
		}
		if ev.RDMAP != nil {
			seen[ev.RDMAP.Op] = true
		}
	})
	for op := verbs.OpWrite; op <= verbs.OpAtomicWriteResponse; op++ {
		if !seen[op] && op != verbs.OpTerminate && op != verbs.OpSendSEInvalidate {
			t.Errorf("no %v", op)
		}
	}
	if !slices.ContainsFunc(terminated().Frames, func(f *twin.Frame) bool { return f.Seg.QN == 2 }) {
		t.Error("no Terminate")
	}
}
