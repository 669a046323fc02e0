package engine_test

import (
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
)

// TestKeepaliveTicks: a silent peer gets two keepalives, and one that has sent anything gets no more.
func TestKeepaliveTicks(t *testing.T) {
	for heardAt, want := range map[int][]int{1: nil, 6: {5}, 25: {5}, 26: {5, 25}, 1000: {5, 25}} {
		var k engine.Keepalive
		var got []int
		ticks := 0
		for more := true; more; {
			ticks++
			var due bool
			if due, more = k.Tick(ticks >= heardAt); due {
				got = append(got, ticks)
			}
		}
		if !slices.Equal(got, want) || ticks != min(heardAt, 25) {
			t.Errorf("heard at tick %d: keepalives at %v, %d ticks, want %v", heardAt, got, ticks, want)
		}
	}
}

// TestPartialFPDU: an FPDU of which octets arrive is active, one at which a tick finds hardly any is silent. Its time begins
// anew when there is another one, and when its wait for memory begins or ends, but not with each octet.
func TestPartialFPDU(t *testing.T) {
	type tick struct {
		held                 bool
		octets, fpdus, waits uint64
		state                engine.PartialState
		another              bool
	}
	for name, ticks := range map[string][]tick{
		"none":    {{}, {octets: 12 << 10, fpdus: 3}},
		"dribble": {{true, 4 << 10, 0, 0, engine.PartialActive, true}, {true, 8 << 10, 0, 0, engine.PartialActive, false}, {true, 12 << 10, 0, 0, engine.PartialActive, false}},
		"silent":  {{true, 4 << 10, 0, 0, engine.PartialActive, true}, {true, 4 << 10, 0, 0, engine.PartialSilent, false}, {true, 8 << 10, 0, 0, engine.PartialActive, false}, {held: false, octets: 12 << 10, fpdus: 1}},
		"trickle": {{true, 1, 0, 0, engine.PartialActive, true}, {true, 4 << 10, 0, 0, engine.PartialSilent, false}, {true, 8 << 10, 0, 0, engine.PartialActive, false}},
		"another": {{true, 4 << 10, 0, 0, engine.PartialActive, true}, {true, 8 << 10, 1, 0, engine.PartialActive, true}},
		"again":   {{true, 4 << 10, 0, 0, engine.PartialActive, true}, {octets: 8 << 10, fpdus: 1}, {true, 12 << 10, 1, 0, engine.PartialActive, true}},
		"memory":  {{true, 4 << 10, 0, 0, engine.PartialActive, true}, {true, 4 << 10, 0, 1, engine.PartialSilent, true}, {true, 4 << 10, 0, 2, engine.PartialSilent, true}},
	} {
		var p engine.PartialFPDU
		for i, want := range ticks {
			if state, another := p.Tick(want.held, want.octets, want.fpdus, want.waits); state != want.state || another != want.another {
				t.Errorf("%s, tick %d: state %d, another %v", name, i, state, another)
			}
		}
	}
}
