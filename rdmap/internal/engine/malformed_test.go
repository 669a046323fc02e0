package engine_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestBadTerminates: a Terminate that breaks rules itself is a local error. It is never answered with
// another one (RFC 5040 Section 5.4).
func TestBadTerminates(t *testing.T) {
	good := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.GoldTermSTag))
	whole := func(c verbs.TermCode) *verbs.Terminate {
		return &verbs.Terminate{Code: c, HasLength: true, SegLen: 30, DDP: bytes.Clone(good[24:38])}
	}
	for _, tt := range []struct {
		name string
		u    []byte
		told *verbs.Terminate // what the upper layer is told; nil if the Terminate is refused
	}{
		{"no payload", good[:18], nil},
		{"three octets", good[:21], nil},
		{"header announced and missing", good[:24], &verbs.Terminate{Code: verbs.TermCode{Layer: 1, EType: 1, Code: 0}, HasLength: true, SegLen: 30}},
		{"MSN 2", rdmaptest.Patch(t, rdmaptest.GoldTermSTag, 13, 2), nil},
		{"MO 4", rdmaptest.Patch(t, rdmaptest.GoldTermSTag, 17, 4), nil},
		{"as long as may be", append(bytes.Clone(good), make([]byte, 18+engine.MaxTerminate-len(good))...), whole(verbs.TermCode{Layer: 1, EType: 1, Code: 0})},
		{"longer than any", append(bytes.Clone(good), make([]byte, 400)...), nil},
		{"unregistered code", rdmaptest.Patch(t, rdmaptest.GoldTermSTag, 18, 0xff, 0xff), whole(verbs.TermCode{Layer: 15, EType: 15, Code: 255})},
	} {
		e := newEngine(engineConfig{recvs: 1, ord: 1})
		var d rdmaptest.Done
		sink := own(t, e, 8, rdmaptest.AllRights)
		e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: sink, Len: 8, Done: &d})
		e.output()
		u := bytes.Clone(tt.u)
		if ev, err := e.rcv.Input(u); err != nil {
			e.fail(err)
		} else {
			e.event(ev)
		}
		clear(u) // it was borrowed
		if out := e.output(); len(out) > 0 {
			t.Errorf("%s: answered with %x", tt.name, out)
		}
		if e.err == nil || d.N != 1 || d.Err == nil {
			t.Errorf("%s: error %v, work completed %d times with %v", tt.name, e.err, d.N, d.Err)
		}
		te, ok := errors.AsType[*verbs.TerminateError](e.err)
		if ok != (tt.told != nil) || ok && (te.Terminate.Code != tt.told.Code || !bytes.Equal(te.Terminate.Append(nil), tt.told.Append(nil))) {
			t.Errorf("%s: told %v", tt.name, e.err)
		}
	}
}
