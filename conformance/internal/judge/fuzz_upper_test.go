package judge_test

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// talks are good conversations of the upper layers.
func talks() []*twin.Trace {
	rpc, old := twin.NewRPC(), twin.NewRPC()
	goodRPC(rpc)
	goodOld(old)
	return []*twin.Trace{rpc.Trace, old.Trace, goodLog(commitlog.WAL), goodLog(commitlog.Strict)}
}

// FuzzUpper: whatever is changed in the messages of a good conversation, in frames that the lower layers
// accept, the judge does not panic, and reports only rules that exist. Four octets an edit: the frame, where
// in its payload (2), what is xor-ed there.
func FuzzUpper(f *testing.F) {
	f.Add(uint8(0), []byte{2, 0, 7, 1})
	f.Add(uint8(1), []byte{5, 0, 15, 3, 9, 0, 19, 255})
	f.Add(uint8(2), []byte{3, 0, 39, 1, 4, 0, 3, 1})
	f.Add(uint8(3), []byte{6, 0, 20, 1})
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		all := talks()
		talk := all[int(which)%len(all)]
		for ; len(edits) >= 4; edits = edits[4:] {
			p := talk.Frames[int(edits[0])%len(talk.Frames)].Payload
			if len(p) > 0 {
				p[(int(edits[1])<<8|int(edits[2]))%len(p)] ^= edits[3]
			}
		}
		j := judge.New(nil, func(v *judge.Violation) {
			if _, ok := judge.Find(v.Rule.ID); !ok || v.Frame < 1 || v.Detail == "" {
				t.Errorf("%v", v)
			}
		})
		talk.Play(nil, j.Event)
		j.End()
	})
}
