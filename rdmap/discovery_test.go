package rdmap_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestDiscovery: a FetchAdd of 0 changes nothing and tells whether the peer supports atomics. A peer that does
// not ends the connection and says why (RFC 7306 Section 1.1).
func TestDiscovery(t *testing.T) {
	for _, can := range []bool{true, false} {
		a, b := rdmaptest.Pipe()
		cy := &rdmap.Config{Startup: rdmap.Startup{Plain: true}}
		if can {
			cy.Startup.Extensions = verbs.Ext7306
		}
		x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306, Plain: true}}, cy)
		mem, p := rdmaptest.Word(41)
		reg, err := y.Register(mem, region.Atomic)
		if err != nil {
			t.Fatal(err)
		}
		go y.Serve()
		if err := x.Send(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		old, err := x.FetchAdd(t.Context(), reg.STag(), 0, 0, 0)
		te, refused := errors.AsType[*verbs.TerminateError](err)
		if *p != 41 || can && (err != nil || old != 41) || !can && (!refused || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 6})) {
			t.Errorf("can %v: %d, %v, word %d", can, old, err, *p)
		}
	}
}
