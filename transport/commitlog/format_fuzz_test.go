package commitlog

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// crc is a checksum as a header and a record have it. That of a header is at 188, behind zeros from 132.
func crc(b []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32c.Update(0, b))
}

// FuzzHeader: what parses is written the same way again.
func FuzzHeader(f *testing.F) {
	h := goldenHeader()
	f.Add(h.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerLen {
			return
		}
		b = b[:headerLen]
		resum(b)
		var h header
		if h.Parse(b, 0) != nil {
			return
		}
		zero := append(bytes.Clone(b[:132]), make([]byte, 188-132)...)
		if got := h.Append(nil); !bytes.Equal(got[:188], zero) {
			t.Errorf("got %x\nwant %x", got, b)
		}
	})
}

// FuzzRecord: no octets make a check look outside the ring, and what passes is written the
// same way again.
func FuzzRecord(f *testing.F) {
	f.Add(appendRecord(nil, 1, 2, 3, 64, []byte("abc")), uint64(64))
	f.Add(appendFiller(nil, 1, 2, 3, 64, 128), uint64(512-128))
	f.Fuzz(func(t *testing.T, b []byte, pos uint64) {
		if len(b) < recordHeaderLen || pos > 1<<40 {
			return
		}
		pos -= pos % align
		const capacity = 512
		r := parseRecord(b)
		place := expected{Pos: pos, Seq: r.Seq, MinEpoch: 0, Last: r.Epoch, Limit: pos + capacity, Capacity: capacity}
		if r.CheckHeader(&place) != valid {
			return
		}
		if size := r.Size(); ringAt(pos, capacity)+size > capacity || size == 0 || size%align != 0 && r.Filler == 0 {
			t.Fatalf("record of %d octets at %d", size, pos)
		}
		if r.Filler != 0 {
			r.Sum = 0
			if got := appendFiller(nil, 1, r.Epoch, r.Seq, r.Proven, r.Filler); !bytes.Equal(got[:24], b[:24]) {
				t.Errorf("got %x want %x", got[:24], b[:24])
			}
			return
		}
		if len(b) < recordHeaderLen+r.Len {
			return
		}
		payload := b[recordHeaderLen : recordHeaderLen+r.Len]
		got := appendRecord(nil, 1, r.Epoch, r.Seq, r.Proven, payload)
		if back := parseRecord(got); !bytes.Equal(got[:24], b[:24]) || back.CheckSum(1, payload) != valid {
			t.Errorf("got %x want %x", got[:24], b[:24])
		}
	})
}
