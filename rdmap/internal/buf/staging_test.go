package buf_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

// TestRoom: a read gets all of the staging except the pending octets, which move to its front; or a larger staging, if an
// FPDU needs that.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		r, w, need int
		room       int
	}{
		{0, 0, 2, buf.Small},
		{700, 700, 2, buf.Small},
		{0, 900, 1000, buf.Small - 900},
		{700, 900, 1000, buf.Small - 200},
		{700, buf.Small, buf.Small, 700},
		{700, 900, buf.Small + 1, 16<<10 - 200},
		{700, 900, 66 << 10, 66<<10 - 200},
		{700, 900, 66<<10 + 1, buf.Big - 200},
		{700, 900, buf.Big + 1, buf.Big + 1 - 200},
	} {
		st := buf.NewStaging(buf.Small)
		for i := range st.B {
			st.B[i] = byte(i * i >> 3)
		}
		st.R, st.W = c.r, c.w
		pending := bytes.Clone(st.Pending())
		st, buf := st.Room(c.need)
		if len(buf) != c.room || st.R != 0 || !bytes.Equal(st.Pending(), pending) || len(buf) > 0 && &buf[0] != &st.B[st.W] {
			t.Errorf("%+v: %d octets of room after %d to %d, pending %d", c, len(buf), st.R, st.W, len(pending))
		}
		st.Release()
	}
}

// TestSplit: whoever takes over gets every pending octet, whatever their number.
func TestSplit(t *testing.T) {
	for _, n := range []int{0, 1, buf.Small, buf.Small + 1, buf.Big, buf.Big + 1, 3 * buf.Big} {
		st := buf.NewStaging(n + 100)
		for i := range st.B {
			st.B[i] = byte(i * i >> 3)
		}
		st.R, st.W = 100, n+100
		want := bytes.Clone(st.Pending())
		to := st.Split()
		if to == nil {
			to = buf.NewStaging(0)
		}
		st.Leave()
		if !bytes.Equal(to.Pending(), want) {
			t.Errorf("%d octets of %d", len(to.Pending()), n)
		}
		to.Release()
	}
}
