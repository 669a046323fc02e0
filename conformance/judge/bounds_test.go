package judge

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/decode"
	"github.com/stag-rdma/stag/conformance/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/ddp"
)

// TestBounds: what a connection makes the judge remember is bounded.
func TestBounds(t *testing.T) {
	tr := twin.New()
	tr.Request(enhanced(deep))
	tr.Reply(enhanced(deep))
	for n := range uint32(500) {
		tr.SendInvalidate(twin.I, ddp.STag(n), nil)
		tr.ReadRequest(twin.I, read(n))
	}
	j := New(&Options{MaxSTags: 20, MaxRequests: 30}, func(v *Violation) {
		if v.Rule.ID != "RDMAP-036" {
			t.Error(v)
		}
	})
	tr.Play(nil, func(ev *decode.Event) {
		j.Event(ev)
		for _, m := range j.conns[ev.Conn].machines {
			switch m := m.(type) {
			case *stags:
				if n := len(m.dead[1].at); n > 20 || len(m.dead[1].order) > 20 {
					t.Fatalf("%d STags", n)
				}
			case *reads:
				if n := len(m.sides[0].out); n > 30 {
					t.Fatalf("%d requests", n)
				}
			}
		}
	})
}

// TestManyConnections: the oldest connections are ended when there are too many.
func TestManyConnections(t *testing.T) {
	j := New(&Options{MaxConns: 3}, func(v *Violation) { t.Error(v) })
	for range 10 {
		onlyStartup().Play(nil, func(ev *decode.Event) {
			j.Event(ev)
			if len(j.conns) > 3 || len(j.order) > 3 {
				t.Fatalf("%d connections", len(j.conns))
			}
		})
	}
	if j.End(); len(j.conns) > 0 {
		t.Errorf("%d connections after the end", len(j.conns))
	}
}
