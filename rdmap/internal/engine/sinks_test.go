package engine_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// look is a Completer that records whether a region is valid when it is called.
type look struct {
	reg   region.Region
	valid bool
	rdmaptest.Done
}

func (l *look) Complete(err error) { l.valid = l.reg.Valid(); l.Done.Complete(err) }

// TestInvalidateSink: the STag is valid until the last octet is placed, and invalid when the Read completes. Without
// InvalidateSink it stays valid.
func TestInvalidateSink(t *testing.T) {
	for _, n := range []uint32{0, 100, 5000} {
		for _, wish := range []bool{true, false} {
			a, b := newEngine(engineConfig{ord: 2}), newEngine(engineConfig{ird: 2})
			_, src := b.register(t, 5000, region.RemoteRead)
			_, sink := a.register(t, 5000, region.ReadSink)
			l := &look{reg: sink}
			a.post(verbs.WR{Op: verbs.OpReadRequest, STag: src.STag(), Sink: sink.STag(), Len: n, InvalidateSink: wish, Done: l})
			b.input(a.output())
			out := b.output()
			for i := range out {
				if l.N != 0 || !sink.Valid() {
					t.Fatalf("%d octets: over after %d of %d", n, i, len(out))
				}
				a.input(out[i : i+1])
			}
			if l.N != 1 || l.Err != nil || l.valid == wish || sink.Valid() == wish {
				t.Errorf("%d octets, wish %v: %+v, valid %v", n, wish, l.Done, l.valid)
			}
			live := 1
			if wish {
				live = 0
			}
			if a.snd.Table.Live() != live {
				t.Errorf("%d registrations", a.snd.Table.Live())
			}
		}
	}
	if err := engine.Misuse(&verbs.WR{Op: verbs.OpSend, InvalidateSink: true}); !errors.Is(err, verbs.ErrBadWR) {
		t.Error(err)
	}
}
