package judge_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
)

// played judges a conversation of RPC-over-RDMA. It returns the rules broken.
func played(t *testing.T, talk func(*twin.RPC)) (broken []string) {
	t.Helper()
	conv := twin.NewRPC()
	talk(conv)
	j := judge.New(nil, func(v *judge.Violation) {
		t.Log(v)
		if v.Cause == nil && v.Rule.ID != "RDMAP-042" && !slices.Contains(broken, v.Rule.ID) { // its twin is elsewhere
			broken = append(broken, v.Rule.ID)
		}
	})
	conv.Play(nil, func(ev *decode.Event) { j.Event(ev) })
	j.End()
	slices.Sort(broken)
	return broken
}

// TestGoodRPC: nothing is wrong with the conversations that the twins are made from.
func TestGoodRPC(t *testing.T) {
	for name, talk := range map[string]func(*twin.RPC){"8166": goodRPC, "5666": goodOld} {
		t.Run(name, func(t *testing.T) {
			if got := played(t, talk); got != nil {
				t.Errorf("broken: %v", got)
			}
		})
	}
}

// TestTwinsRPC: one thing changed breaks one rule, and the rule that it should.
func TestTwinsRPC(t *testing.T) {
	for _, table := range []map[string]func(*twin.RPC){rpcrdmaTwins, rpcTwins, nfsTwins} {
		for id, talk := range table {
			t.Run(id, func(t *testing.T) {
				want := []string{id}
				base := rpcrdmaBases[id]
				if base == nil {
					base = rpcBases[id]
				}
				if base != nil {
					want = append(want, played(t, base)...)
				}
				slices.Sort(want)
				if got := played(t, talk); !slices.Equal(got, want) {
					t.Errorf("broken: %v, want %v", got, want)
				}
			})
		}
	}
	for _, r := range slices.Concat(judge.RPCRDMARules, judge.RPCRules, judge.NFSRules) {
		if !slices.ContainsFunc([]map[string]func(*twin.RPC){rpcrdmaTwins, rpcTwins, nfsTwins}, func(m map[string]func(*twin.RPC)) bool {
			return slices.Contains(slices.Collect(maps.Keys(m)), r.ID)
		}) {
			t.Errorf("%s has no twin", r.ID)
		}
	}
}
