package commitlog

import "testing"

// fuzzLog makes a log without a T.
func fuzzLog(f *testing.F, mode Mode) ram {
	f.Helper()
	r := make(ram, ringOff+512)
	h := header{Mode: mode, Capacity: 512, Epoch: 1}
	ops, err := creation(h)
	noErr(f, err)
	r.do(ops)
	p := r[ringOff:ringOff]
	p = appendRecord(p, h.Salt(1), 1, 1, 0, []byte("one"))
	appendRecord(p, h.Salt(1), 1, 2, 64, make([]byte, 100))
	r[tailOff+7] = 192
	return r
}

// FuzzRecover: whatever octets are changed, recovery neither panics nor reads outside, and what
// it hands out are records that were there.
func FuzzRecover(f *testing.F) {
	logs := []ram{fuzzLog(f, Strict), fuzzLog(f, WAL)}
	f.Add(uint8(0), []byte{0, 11, 2})
	f.Add(uint8(1), []byte{0x20, 7, 1, 0x40, 0, 0x80})
	f.Fuzz(func(t *testing.T, which uint8, patches []byte) {
		r := append(ram(nil), logs[which%2]...)
		for ; len(patches) >= 3; patches = patches[3:] {
			at := (int(patches[0])<<8 | int(patches[1])) % len(r)
			r[at] ^= patches[2]
		}
		n := 0
		st, err := recoverLog(r, len(r), func(rec *Record) error {
			n++
			if rec.Seq == 0 || len(rec.Payload) > PayloadLimit(512) {
				t.Errorf("%+v", rec)
			}
			return nil
		})
		if err != nil {
			return
		}
		if st.Tail < st.Head.Pos || st.Tail-st.Head.Pos > st.Header.Capacity || n > 8 || st.NextSeq != st.Head.Seq+uint64(n) {
			t.Errorf("%+v, %d records", st, n)
		}
		c := newConsumer(r, st)
		r.do(c.Start())
		_, _, _ = c.Fenced(r.tail(), [16]byte{})
	})
}
