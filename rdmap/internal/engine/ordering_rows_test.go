package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// The two outcomes if the first operation is held back at the responder although both have arrived.
var (
	waits  = []int{first, later} // the later one waits for it
	passes = []int{later, first} // the later one does not
)

// TestOrdering checks, for every operation and every one after it, what the tables of RFC 5040 Appendix B,
// RFC 7306 Section 7 and the commit draft say. A row says what happens while the first one is held back; if
// it is not, both take effect in the order of their submission. If a table promises nothing and the outcome
// here is waits, the reason is the order of the stream.
func TestOrdering(t *testing.T) {
	for _, tt := range []struct {
		spec string
		want []int
	}{
		{spec: "rdmap 7.1 Send-Send", want: waits},
		{spec: "rdmap 7.1 Send-Write", want: passes},
		{spec: "rdmap 7.1 Send-Read", want: waits},
		{spec: "rdmap 7.1 Write-Send", want: waits},
		{spec: "rdmap 7.1 Write-Write", want: waits},
		{spec: "rdmap 7.1 Write-Read", want: waits},
		{spec: "rdmap 7.1 Read-Send", want: passes},
		{spec: "rdmap 7.1 Read-Write", want: passes},
		{spec: "rdmap 7.1 Read-Read", want: waits},

		{spec: "rdmap 7.2 Imm-Send", want: waits},
		{spec: "rdmap 7.2 Imm-Write", want: passes},
		{spec: "rdmap 7.2 Imm-Read", want: waits},
		{spec: "rdmap 7.2 Imm-At", want: waits},
		{spec: "rdmap 7.2 Imm-Imm", want: waits},
		{spec: "rdmap 7.2 Send-At", want: waits},
		{spec: "rdmap 7.2 Send-Imm", want: waits},
		{spec: "rdmap 7.2 Write-At", want: waits},
		{spec: "rdmap 7.2 Write-Imm", want: waits},
		{spec: "rdmap 7.2 Read-At", want: waits},
		{spec: "rdmap 7.2 Read-Imm", want: passes},
		{spec: "rdmap 7.2 At-Send", want: passes},
		{spec: "rdmap 7.2 At-Write", want: passes},
		{spec: "rdmap 7.2 At-Read", want: waits},
		{spec: "rdmap 7.2 At-At", want: waits},
		{spec: "rdmap 7.2 At-Imm", want: passes},

		{spec: "rdmap 7.3 Write-F", want: waits},
		{spec: "rdmap 7.3 Write-V", want: waits},
		{spec: "rdmap 7.3 Write-AW", want: waits},
		{spec: "rdmap 7.3 Send-F", want: waits},
		{spec: "rdmap 7.3 Send-V", want: waits},
		{spec: "rdmap 7.3 Send-AW", want: waits},
		{spec: "rdmap 7.3 Imm-F", want: waits},
		{spec: "rdmap 7.3 Imm-V", want: waits},
		{spec: "rdmap 7.3 Imm-AW", want: waits},
		{spec: "rdmap 7.3 Read-F", want: waits},
		{spec: "rdmap 7.3 Read-V", want: waits},
		{spec: "rdmap 7.3 Read-AW", want: waits},
		{spec: "rdmap 7.3 At-F", want: waits},
		{spec: "rdmap 7.3 At-V", want: waits},
		{spec: "rdmap 7.3 At-AW", want: waits},
		{spec: "rdmap 7.3 F-Send", want: passes},
		{spec: "rdmap 7.3 F-Imm", want: passes},
		{spec: "rdmap 7.3 F-Write", want: passes},
		{spec: "rdmap 7.3 F-Read", want: waits},
		{spec: "rdmap 7.3 F-At", want: waits},
		{spec: "rdmap 7.3 F-F", want: waits},
		{spec: "rdmap 7.3 F-V", want: waits},
		{spec: "rdmap 7.3 F-AW", want: waits},
		{spec: "rdmap 7.3 V-Send", want: passes},
		{spec: "rdmap 7.3 V-Imm", want: passes},
		{spec: "rdmap 7.3 V-Write", want: passes},
		{spec: "rdmap 7.3 V-Read", want: waits},
		{spec: "rdmap 7.3 V-At", want: waits},
		{spec: "rdmap 7.3 V-F", want: waits},
		{spec: "rdmap 7.3 V-V", want: waits},
		{spec: "rdmap 7.3 V-AW", want: waits},
		{spec: "rdmap 7.3 AW-Send", want: passes},
		{spec: "rdmap 7.3 AW-Imm", want: passes},
		{spec: "rdmap 7.3 AW-Write", want: passes},
		{spec: "rdmap 7.3 AW-Read", want: waits},
		{spec: "rdmap 7.3 AW-At", want: waits},
		{spec: "rdmap 7.3 AW-F", want: waits},
		{spec: "rdmap 7.3 AW-V", want: waits},
		{spec: "rdmap 7.3 AW-AW", want: waits},
	} {
		t.Run(tt.spec, func(t *testing.T) {
			pair := tt.spec[strings.LastIndexByte(tt.spec, ' ')+1:]
			a, b, _ := strings.Cut(pair, "-")
			for _, rig := range []func(testing.TB, string, string) *orderRig{newOrderRig, newPlainRig} {
				held(rig(t, a, b), tt.want)
				together(rig(t, a, b))
				oneByOne(rig(t, a, b))
				if orderOps[a].response != 0 && orderOps[b].response != 0 {
					refused(rig(t, a, b))
				}
			}
		})
	}
}

// held: both have arrived; at first nothing can be finished, then everything can.
func held(g *orderRig, want []int) {
	fpdus := g.post(g.region.STag())
	g.hold()
	for _, f := range fpdus {
		g.arrive(f)
	}
	if g.ops[first].response == 0 || g.b.snd.Responses().At(0).Req().Blocks() {
		g.leave() // everything that need not wait is sent
	}
	if g.ops[first].holds() && slices.Contains(g.trace, first) {
		g.t.Fatalf("%s took effect although it is held back", g.say([]int{first}))
	}
	if waited := len(g.trace) == 0; g.ops[first].holds() && waited != slices.Equal(want, waits) {
		g.t.Fatalf("took effect while the first one is held back: %s", g.say(g.trace))
	}
	g.release()
	g.leave()
	g.check(want)
}

// together: both arrive in one read.
func together(g *orderRig) {
	for _, f := range g.post(g.region.STag()) {
		g.arrive(f)
	}
	g.leave()
	// An operation without a response has taken effect by then.
	if g.ops[first].response != 0 && g.ops[later].response == 0 {
		g.check(passes)
		return
	}
	g.check(waits)
}

// oneByOne: each is finished before the next is posted.
func oneByOne(g *orderRig) {
	for _, f := range g.post(g.region.STag()) {
		g.arrive(f)
		g.leave()
	}
	g.check(waits)
}

// refused: the first request fails, so the later one is not carried out, and only the Terminate is sent.
func refused(g *orderRig) {
	for _, f := range g.post(0) {
		g.arrive(f)
	}
	g.leave()
	if !slices.Equal(g.wire, []verbs.Opcode{verbs.OpTerminate}) {
		g.t.Errorf("after a request that failed, %v was sent", g.wire)
	}
	if word := wordOf(g.mem.Bytes()); word != wordOf(rdmaptest.Pattern(8)) || len(g.mem.persisted) > 0 {
		g.t.Errorf("after %s had failed, %s was carried out", g.say([]int{first}), g.say([]int{later}))
	}
	if !slices.Equal(g.done, []string{"1!", "2!"}) {
		g.t.Errorf("completed %v", g.done)
	}
}
