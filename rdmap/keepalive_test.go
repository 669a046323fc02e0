package rdmap_test

import (
	"encoding/hex"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestKeepalive: which peers are sent an RDMA Write of no octets, and when. An initiator that has sent
// something and received nothing sends it, twice.
func TestKeepalive(t *testing.T) {
	const write = "c140" + "00000000" + "0000000000000000" // STag 0, TO 0
	for _, tt := range []struct {
		name    string
		silent  bool // nothing is sent
		answers bool // the peer answers at once
		want    []time.Duration
	}{
		{name: "silent peer", want: []time.Duration{200 * time.Millisecond, time.Second}},
		{name: "nothing sent", silent: true},
		{name: "peer that answers", answers: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := rdmaptest.Pipe()
				c, p := RawResponder(t, a, b, nil)
				start := time.Now()
				if !tt.silent {
					noErr(t, c.Send(t.Context(), []byte("call")))
					if _, err := p.Next(); err != nil {
						t.Fatal(err)
					}
				}
				if tt.answers {
					noErr(t, p.Send(append([]byte{0x41, 0x43, 13: 1, 17: 0}, "answer"...)))
				}
				time.AfterFunc(time.Minute, func() { c.Abort(nil) })
				for _, want := range tt.want {
					u, err := p.Next()
					if got := time.Since(start); err != nil || hex.EncodeToString(u) != write || got != want {
						t.Errorf("after %v: %x, %v, want %s after %v", got, u, err, write, want)
					}
				}
				if u, err := p.Next(); err == nil {
					t.Errorf("after %v: %x", time.Since(start), u)
				}
			})
		})
	}
}

// TestKeepaliveStag: a stag peer that answers late gets no keepalive.
func TestKeepaliveStag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		rec := &rdmaptest.Record{Conn: a}
		x, y := rdmaptest.Connect(t, rec, b, nil, nil)
		noErr(t, x.Send(t.Context(), []byte("call")))
		n := len(rec.Out())
		time.Sleep(time.Minute)
		if out := rec.Out()[n:]; len(out) != 0 {
			t.Errorf("sent %x", out)
		}
		x.Abort(nil)
		y.Abort(nil)
	})
}
