package judge_test

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
)

// TestSentAgain: a WRITE that is sent again over a new connection may be answered from a duplicate request cache, and
// its data need not be read again. Every other one is read before it is answered.
func TestSentAgain(t *testing.T) {
	cut := func(x *twin.Exchange) *twin.Trace {
		c := twin.NewRPC()
		c.Ask(x)
		c.Frames = append(c.Frames, &twin.Frame{Dir: twin.R, End: twin.RST})
		return c.Trace
	}
	unread := func(x *twin.Exchange) *twin.Trace {
		c := twin.NewRPC()
		answered := *x
		answered.Pulls = nil
		c.Do(&answered)
		return c.Close()
	}
	call := func() *twin.Exchange { return twin.NewRPC().WriteFile(5001) }
	other := func() *twin.Exchange { c := twin.NewRPC(); c.Null(); return c.WriteFile(5001) } // another XID

	for _, tt := range []struct {
		name   string
		traces []*twin.Trace
		want   int
	}{
		{"sent once", []*twin.Trace{unread(call())}, 1},
		{"sent again", []*twin.Trace{cut(call()), unread(call())}, 0},
		{"another call", []*twin.Trace{cut(other()), unread(call())}, 1},
	} {
		var got []*judge.Violation
		j := judge.New(nil, func(v *judge.Violation) { got = append(got, v) })
		for _, c := range tt.traces {
			c.Play(&decode.Options{}, j.Event)
		}
		j.End()
		for _, v := range got {
			if v.Rule.ID != "RPCRDMA-053" {
				t.Errorf("%s: %v", tt.name, v)
			}
		}
		if len(got) != tt.want {
			t.Errorf("%s: %d violations, want %d", tt.name, len(got), tt.want)
		}
	}
}
