package commitlog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// TestTailGoesBack: a producer that takes the tail back before anybody has seen where it was. What was acknowledged once
// is handed out, or the log is poisoned: otherwise whoever has seen the tail would wait for its records for ever.
func TestTailGoesBack(t *testing.T) {
	for _, mode := range []commitlog.Mode{commitlog.WAL, commitlog.Strict} {
		for _, written := range []bool{true, false} {
			l := newTestLog(t, sim(4096), mode)
			p := newTestProducer(t, nil)
			c, s := connect(t, p, pipes, nil)
			ans := must(l.Advertise(t.Context(), s))(t)
			record := make([]byte, commitlog.Align)
			if written {
				record = commitlog.AppendRecord(nil, ans.Salt, ans.Epoch, ans.NextSeq, 0, []byte("once"))
			}
			noErr(t, c.Write(t.Context(), record, region.STag(ans.RingSTag), 0))
			for _, to := range []uint64{commitlog.Align, 0} {
				word := [8]byte(binary.BigEndian.AppendUint64(nil, to))
				err := errors.Join(
					c.AtomicWrite(t.Context(), region.STag(ans.TailSTag), 0, word),
					c.Flush(t.Context(), region.STag(ans.TailSTag), 0, 8, verbs.FlushPersistent),
				)
				if err != nil || l.Tail() != commitlog.Align {
					t.Fatal(err, l.Tail())
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			r, err := l.Next(ctx)
			cancel()
			_, poisoned := errors.AsType[*commitlog.PoisonError](err)
			if written && (err != nil || string(r.Payload) != "once") || !written && !poisoned {
				t.Errorf("mode %v, written %v: %v, %v", mode, written, r, err)
			}
		}
	}
}
