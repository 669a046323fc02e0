package judge_test

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestSTagLife: an STag is dead from its invalidation until its owner may have advertised it again.
func TestSTagLife(t *testing.T) {
	const tag = ddp.STag(0x3300)
	for _, tt := range []struct {
		name    string
		between func(*twin.Trace)
		use     func(*twin.Trace)
		want    string
	}{
		{"write", nil, func(t *twin.Trace) { t.Write(twin.R, tag, 0, octets(4)) }, "RDMAP-040"},
		{"write of nothing", nil, func(t *twin.Trace) { t.Write(twin.R, tag, 0, nil) }, ""},
		{"write to another", nil, func(t *twin.Trace) { t.Write(twin.R, tag+1, 0, octets(4)) }, ""},
		{"write by the owner", nil, func(t *twin.Trace) { t.Write(twin.I, tag, 0, octets(4)) }, ""},
		{"atomic", nil, func(t *twin.Trace) { t.Atomic(twin.R, verbs.AtomicFetchAdd, 1, tag, 0) }, "RDMAP-040"},
		{"flush", nil, func(t *twin.Trace) { t.Flush(twin.R, tag, 8, 0) }, "RDMAP-040"},
		{"flush of nothing", nil, func(t *twin.Trace) { t.Flush(twin.R, tag, 0, 0) }, ""},
		{"again", nil, func(t *twin.Trace) { t.SendInvalidate(twin.R, tag, nil) }, "RDMAP-041"},
		{"owner sent", func(t *twin.Trace) { t.Send(twin.I, octets(9)) }, func(t *twin.Trace) { t.Write(twin.R, tag, 0, octets(4)) }, ""},
		{"owner wrote", func(t *twin.Trace) { t.Write(twin.I, 1, 0, octets(9)) }, func(t *twin.Trace) { t.Write(twin.R, tag, 0, octets(4)) }, ""},
		{"peer sent", func(t *twin.Trace) { t.Send(twin.R, octets(9)) }, func(t *twin.Trace) { t.Write(twin.R, tag, 0, octets(4)) }, "RDMAP-040"},
		{
			"sink of a Read of the owner", func(t *twin.Trace) { t.Read(twin.I, read(uint32(tag-0x1100))) },
			func(t *twin.Trace) { t.Write(twin.R, tag, 0, octets(4)) }, "",
		},
		{"source of a Read", nil, func(t *twin.Trace) {
			r := read(0)
			r.SourceSTag = tag
			t.ReadRequest(twin.R, r)
		}, "RDMAP-040"},
	} {
		trace := twin.New().Startup()
		trace.Send(twin.I, octets(4))
		trace.SendInvalidate(twin.R, tag, nil)
		if tt.between != nil {
			tt.between(trace)
		}
		tt.use(trace)
		got := ""
		for _, v := range judged(trace, new(twinOf)) {
			got += v.Rule.ID
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
