package judge_test

import (
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
)

// TestResent: a frame with a wrong CRC that is sent again with the right octets is not known to be wrong,
// whether the second copy comes before the frame is whole or after it, and nobody is blamed for its delivery. If the
// second copy is wrong as well, it is.
func TestResent(t *testing.T) {
	good := listen(someNFS(true))
	const n = 4 // the first READ
	for _, tt := range []struct {
		name         string
		damaged, cut int
		again        byte // damages the second copy
		want         string
	}{
		{"after it", 30, 0, 0, ""},
		{"before it is whole", 30, 60, 0, ""},
		{"wrong again", 30, 0, 9, "MPA-030"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := judge.NewBuilder(nil)
			c := decode.NewConn(nil, b.Event)
			for i, f := range good {
				at := decode.Stamp{Frame: i + 1}
				switch {
				case f.kind == decode.KindClose:
					c.Close(f.dir, f.reset, at)
				case i == n:
					bad := flipped(&f, tt.damaged, 1, false)
					first := len(bad) - tt.cut
					c.Octets(f.dir, bad[:first], at)
					copied := append([]byte(nil), f.raw[:first]...)
					copied[tt.damaged] ^= tt.again
					c.Conflict(f.dir, 1, copied, first, at)
					c.Octets(f.dir, bad[first:], at)
				default:
					c.Octets(f.dir, f.raw, at)
				}
			}
			c.Finish()
			r := b.Report()
			var got []string
			for _, v := range r.Violations {
				if v.Dir == twin.I {
					got = append(got, v.Rule.ID)
				}
			}
			if strings.Join(got, " ") != tt.want || tt.want == "" && (len(r.Violations) > 0 || !strings.Contains(strings.Join(r.Reasons(), " "), "sent again")) {
				t.Errorf("%v, want %q; %q", r.Violations, tt.want, r.Reasons())
			}
			if !strings.Contains(strings.Join(r.Reasons(), " "), "retransmitted with other contents") {
				t.Errorf("not said: octets came again with other contents; %q", r.Reasons())
			}
		})
	}
}
