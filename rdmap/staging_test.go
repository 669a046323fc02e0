package rdmap

import (
	"bytes"
	"testing"
)

// TestRoom: a read gets all of the staging except the pending octets, which move to its front; or a larger staging, if an
// FPDU needs that.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		r, w, need int
		room       int
	}{
		{0, 0, 2, smallStaging},
		{700, 700, 2, smallStaging},
		{0, 900, 1000, smallStaging - 900},
		{700, 900, 1000, smallStaging - 200},
		{700, smallStaging, smallStaging, 700},
		{700, 900, smallStaging + 1, 16<<10 - 200},
		{700, 900, 66 << 10, 66<<10 - 200},
		{700, 900, 66<<10 + 1, bigStaging - 200},
		{700, 900, bigStaging + 1, bigStaging + 1 - 200},
	} {
		st := borrowStaging(smallStaging)
		for i := range st.b {
			st.b[i] = byte(i * i >> 3)
		}
		st.r, st.w = c.r, c.w
		pending := bytes.Clone(st.pending())
		st, buf := st.room(c.need)
		if len(buf) != c.room || st.r != 0 || !bytes.Equal(st.pending(), pending) || len(buf) > 0 && &buf[0] != &st.b[st.w] {
			t.Errorf("%+v: %d octets of room after %d to %d, pending %d", c, len(buf), st.r, st.w, len(pending))
		}
		st.giveBack()
	}
}

// TestSplit: whoever takes over gets every pending octet, whatever their number.
func TestSplit(t *testing.T) {
	for _, n := range []int{0, 1, smallStaging, smallStaging + 1, bigStaging, bigStaging + 1, 3 * bigStaging} {
		st := borrowStaging(n + 100)
		for i := range st.b {
			st.b[i] = byte(i * i >> 3)
		}
		st.r, st.w = 100, n+100
		want := bytes.Clone(st.pending())
		to := st.split()
		if to == nil {
			to = borrowStaging(0)
		}
		st.leave()
		if !bytes.Equal(to.pending(), want) {
			t.Errorf("%d octets of %d", len(to.pending()), n)
		}
		to.giveBack()
	}
}
