package engine_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// lifecycle is the table of what leaves each state. An event without an entry changes nothing.
var lifecycle = map[engine.State]map[string]engine.State{
	engine.StateNew: {"begin": engine.StateStarting, "violation": engine.StateDraining, "graceful": engine.StateDraining, "abort": engine.StateClosed},
	engine.StateStarting: {
		"open, initiator": engine.StateOpen, "open, responder": engine.StateHeld,
		"violation": engine.StateDraining, "graceful": engine.StateDraining, "abort": engine.StateClosed,
	},
	engine.StateHeld: {"good FPDU": engine.StateOpen, "violation": engine.StateClosed, "graceful": engine.StateDraining, "abort": engine.StateClosed},
	engine.StateOpen: {
		"close":     engine.StateClosing,
		"violation": engine.StateTerminating, "graceful": engine.StateDraining, "abort": engine.StateClosed,
	},
	engine.StateClosing:     {"violation": engine.StateTerminating, "graceful": engine.StateDraining, "abort": engine.StateClosed},
	engine.StateTerminating: {"shut": engine.StateClosed},
	engine.StateDraining:    {"shut": engine.StateClosed},
	engine.StateClosed:      {},
}

// apply does what the event says, and reports whether it can happen in that state.
func apply(s *engine.Sender, event string) bool {
	was := s.State()
	switch event {
	case "begin":
		_ = s.StartUp()
	case "open, initiator", "open, responder":
		if was != engine.StateStarting {
			return false
		}
		s.Open(event == "open, initiator")
	case "good FPDU":
		s.Release()
	case "close":
		s.Close()
	case "violation":
		s.Fail(engine.VioVersion.Error(nil), false, false, nil)
	case "graceful":
		s.Fail(verbs.ErrClosed, true, false, nil)
	case "abort":
		s.Fail(rdmaptest.ErrTest, false, false, nil)
	case "shut":
		if !was.Ended() {
			return false
		}
		s.Shut()
	}
	return true
}

// TestLifecycle tries all sequences of up to five events, and compares the states with the table. The first fatal error
// remains; a Terminate is sent in one state alone, and nothing before the connection is open.
func TestLifecycle(t *testing.T) {
	events := []string{"begin", "open, initiator", "open, responder", "good FPDU", "close", "violation", "graceful", "abort", "shut"}
	reached := map[engine.State]bool{}
	var walk func(sequence []string)
	walk = func(sequence []string) {
		s := &engine.Sender{MULPDU: 1000}
		state, first := engine.StateNew, error(nil)
		for _, e := range sequence {
			if !apply(s, e) {
				return
			}
			if next, ok := lifecycle[state][e]; ok {
				state = next
			}
			if s.State() != state {
				t.Fatalf("%q: state %d, want %d", sequence, s.State(), state)
			}
			if first == nil {
				first = s.Err()
			}
			if (s.Err() != nil) != state.Ended() || !errors.Is(s.Err(), first) || state.Up() && state.Ended() {
				t.Fatalf("%q: error %v in state %d", sequence, s.Err(), state)
			}
		}
		reached[state] = true
		if p, ok := errors.AsType[*verbs.ProtocolError](s.Err()); ok && state == engine.StateTerminating && p.Terminate == nil {
			t.Errorf("%q: the error says that no Terminate is sent", sequence)
		}
		var w engine.Work
		if took := s.Take(&w); took != (state == engine.StateTerminating) {
			t.Errorf("%q: something to send in state %d: %v", sequence, state, took)
		}
		if s.Post(&verbs.WR{Op: verbs.OpSend}); state < engine.StateOpen && s.Ready(&w) {
			t.Errorf("%q: a Send may leave in state %d", sequence, state)
		}
		if len(sequence) < 5 {
			for _, e := range events {
				walk(append(slices.Clip(sequence), e))
			}
		}
	}
	walk(nil)
	if len(reached) != len(lifecycle) {
		t.Errorf("%d of %d states are reached", len(reached), len(lifecycle))
	}
}
