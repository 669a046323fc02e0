package judge_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
)

// TestSamples: samples.txt has what the judge reports of the twins.
func TestSamples(t *testing.T) {
	var lines strings.Builder
	for _, r := range judge.Rules() {
		v := accusation(r)
		if v == nil {
			t.Errorf("%s has no twin", r.ID)
			continue
		}
		fmt.Fprintf(&lines, "%s frame %d %v %s\n", r.ID, v.Frame, v.Dir, v.Detail)
	}
	if *judge.Update {
		if err := os.WriteFile("samples.txt", []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if lines.String() != judge.SamplesInFile() {
		t.Error("samples.txt is not what the judge reports of the twins: run this test with -update")
	}
}

// accusation returns the first violation of a rule in its twin.
func accusation(r *judge.Rule) *judge.Violation {
	for _, v := range judged(twinTrace(r.ID)) {
		if v.Rule == r {
			return v
		}
	}
	return nil
}

// twinTrace returns the twin of a rule, and how it is judged.
func twinTrace(id string) (*twin.Trace, *twinOf) {
	if tw, ok := twins[id]; ok {
		trace := tw.good()
		tw.mutate(trace)
		return trace, &tw
	}
	for _, table := range []map[string]func(*twin.RPC){rpcrdmaTwins, rpcTwins, nfsTwins} {
		if talk := table[id]; talk != nil {
			conv := twin.NewRPC()
			talk(conv)
			return conv.Trace, new(twinOf)
		}
	}
	if talk := commitTwins[id]; talk != nil {
		return talk(), new(twinOf)
	}
	return twin.New(), new(twinOf)
}
