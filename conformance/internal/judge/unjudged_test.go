package judge_test

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestUnknownSTag: an RDMA Write whose call is not in the capture is counted as such.
func TestUnknownSTag(t *testing.T) {
	r := twin.NewRPC()
	r.Do(r.Null())
	call := len(r.Frames)
	r.Do(r.ReadFile(5001))
	r.Frames[call] = &twin.Frame{Dir: twin.I, Lost: 100}
	b := judge.NewBuilder(nil)
	r.Play(nil, b.Event)
	m := b.Report().Connections[0].Messages
	if writes := len(frames(r.Trace, verbs.OpWrite)); m.Partly[judge.UnknownSTag] != writes || writes == 0 || m.Partly[judge.Lost] == 0 {
		t.Errorf("%+v, want %d with unknown STags, and the reply after the hole", m, writes)
	}
}
