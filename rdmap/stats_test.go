package rdmap_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestStats: every message is counted once, under its opcode, at both ends, however many segments it has. The sums agree
// with that.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306 | verbs.ExtSwap | verbs.ExtCommit, MULPDU: 1000}, Receives: rdmap.Receives{Size: 9000}}
		x, y := rdmaptest.Connect(t, a, b, cfg, cfg)
		mem := &rdmaptest.Persisting{Mem: make([]byte, 8192)}
		reg, _ := y.Table().RegisterMemory(mem, region.Options{Access: rdmaptest.CommitRights | region.Atomic})
		ctx, s := t.Context(), reg.STag()
		_, e1 := x.FetchAdd(ctx, s, 0, 1, 0)
		_, e2 := x.Verify(ctx, s, 0, 8192, nil)
		if err := errors.Join(
			e1, e2, x.Send(ctx, make([]byte, 9000)), x.Send(ctx, nil), x.SendImmediate(ctx, [8]byte{}, false),
			x.SendImmediate(ctx, [8]byte{}, true), x.Write(ctx, make([]byte, 3000), s, 0),
			x.Flush(ctx, s, 0, 8, verbs.FlushVisible), x.Flush(ctx, s, 0, 8, verbs.FlushPersistent),
			x.AtomicWrite(ctx, s, 8, [8]byte{}), x.Read(ctx, make([]byte, 5000), s, 0),
		); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		asked := verbs.OpCounts{
			verbs.OpSend: 2, verbs.OpImmediate: 1, verbs.OpImmediateSE: 1, verbs.OpWrite: 1, verbs.OpReadRequest: 1,
			verbs.OpAtomicRequest: 1, verbs.OpVerifyRequest: 1, verbs.OpFlushRequest: 2, verbs.OpAtomicWriteRequest: 1,
		}
		answered := verbs.OpCounts{
			verbs.OpReadResponse: 1, verbs.OpAtomicResponse: 1, verbs.OpVerifyResponse: 1, verbs.OpFlushResponse: 2, verbs.OpAtomicWriteResponse: 1,
		}
		for i, c := range []*rdmap.Conn{x, y} {
			st := c.Stats()
			in, out := st.MessagesIn, st.MessagesOut
			if i == 0 {
				in, out = out, in
			}
			if in != asked || out != answered {
				t.Errorf("side %d:\n got %v and %v\nwant %v and %v", i, in, out, asked, answered)
			}
			if st.SendsIn+st.SendsOut != 4 || st.ReadsIn+st.ReadsOut != 1 || st.WriteOctetsIn+st.WriteOctetsOut != 3000 ||
				st.ReadOctetsIn+st.ReadOctetsOut != 5000 {
				t.Errorf("side %d: %+v", i, st)
			}
		}
		if in, out := x.Stats(), y.Stats(); in.FPDUsIn != out.FPDUsOut || in.OctetsIn != out.OctetsOut || in.FPDUsOut != out.FPDUsIn {
			t.Errorf("%+v\n%+v", in, out)
		}
	})
}
