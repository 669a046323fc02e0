package rdmap_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestAtomicity: two domains, several streams and local users add to one word
// (ADVERSARY 28).
func TestAtomicity(t *testing.T) {
	mem, p := conntest.Word(0)
	const streams, each = 4, 100
	var wg sync.WaitGroup
	for range streams {
		a, b := rdmaptest.Pipe()
		cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306}}
		x, y := conntest.Connect(t, a, b, cfg, cfg)
		reg, err := y.Register(mem, region.Atomic)
		if err != nil {
			t.Fatal(err)
		}
		go y.Serve()
		wg.Go(func() {
			for range each {
				if _, err := x.FetchAdd(t.Context(), reg.STag(), 0, 1, 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range each {
			atomic.AddUint64(p, 1)
		}
	})
	wg.Wait()
	if got := atomic.LoadUint64(p); got != (streams+1)*each {
		t.Fatalf("%d", got)
	}
}

// TestExtensionSwitch: both sides have to switch on an extension. FetchAdd of 0 finds out whether a
// plain peer has it.
func TestExtensionSwitch(t *testing.T) {
	t.Parallel()
	on := verbs.Ext7306 | verbs.ExtSwap | verbs.ExtCommit
	for _, tt := range []struct{ a, b, want verbs.Extensions }{
		{on, on, on},
		{verbs.Ext7306, on, verbs.Ext7306},
		{0, on, 0},
		{on, 0, 0},
		{verbs.ExtSwap, verbs.ExtCommit | verbs.ExtSwap, verbs.ExtSwap | verbs.Ext7306},
	} {
		a, b := rdmaptest.Pipe()
		x, y := conntest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{Extensions: tt.a}}, &rdmap.Config{Startup: rdmap.Startup{Extensions: tt.b}})
		if got, other := x.ConnectionState().Extensions, y.ConnectionState().Extensions; got != tt.want || other != tt.want {
			t.Errorf("%v with %v: %v and %v", tt.a, tt.b, got, other)
		}
		if _, err := x.FetchAdd(t.Context(), 1, 0, 0, 0); tt.want == 0 && err != verbs.ErrNoExtension {
			t.Errorf("%v with %v: %v", tt.a, tt.b, err)
		}
	}
	for _, ext := range []verbs.Extensions{0, verbs.Ext7306} {
		a, b := rdmaptest.Pipe()
		x, y := conntest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306, Plain: true}}, &rdmap.Config{Startup: rdmap.Startup{Extensions: ext, Plain: true}})
		mem, _ := conntest.Word(41)
		reg, _ := y.Register(mem, region.Atomic)
		go y.Serve()
		// A responder is silent until it has received one valid FPDU.
		if err := x.Send(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		old, err := x.FetchAdd(t.Context(), reg.STag(), 0, 0, 0)
		te, told := errors.AsType[*verbs.TerminateError](err)
		if ext != 0 && (err != nil || old != 41) || ext == 0 && (!told || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 6})) {
			t.Errorf("discovery with %v: %d, %v", ext, old, err)
		}
	}
}
