package layout

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func crc(b []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, checksum(b))
}

// FuzzHeader: what parses is written the same way again.
func FuzzHeader(f *testing.F) {
	h := goldenHeader()
	f.Add(h.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeaderLen {
			return
		}
		b = b[:HeaderLen]
		resum(b)
		var h Header
		if h.Parse(b, 0) != nil {
			return
		}
		zero := append(bytes.Clone(b[:offZero]), make([]byte, offHeaderCRC-offZero)...)
		if got := h.Append(nil); !bytes.Equal(got[:offHeaderCRC], zero) {
			t.Errorf("got %x\nwant %x", got, b)
		}
	})
}

// FuzzRecord: no octets make a check look outside the ring, and what passes is written the
// same way again.
func FuzzRecord(f *testing.F) {
	f.Add(AppendRecord(nil, 1, 2, 3, 64, []byte("abc")), uint64(64))
	f.Add(AppendFiller(nil, 1, 2, 3, 64, 128), uint64(512-128))
	f.Fuzz(func(t *testing.T, b []byte, pos uint64) {
		if len(b) < RecordHeaderLen || pos > 1<<40 {
			return
		}
		pos -= pos % Align
		const capacity = 512
		r := ParseRecord(b)
		place := Place{Pos: pos, Seq: r.Seq, MinEpoch: 0, Last: r.Epoch, Limit: pos + capacity, Capacity: capacity}
		if r.CheckHeader(&place) != Valid {
			return
		}
		if size := r.Size(); Ring(pos, capacity)+size > capacity || size == 0 || size%Align != 0 && r.Filler == 0 {
			t.Fatalf("record of %d octets at %d", size, pos)
		}
		if r.Filler != 0 {
			r.Sum = 0
			if got := AppendFiller(nil, 1, r.Epoch, r.Seq, r.Proven, r.Filler); !bytes.Equal(got[:24], b[:24]) {
				t.Errorf("got %x want %x", got[:24], b[:24])
			}
			return
		}
		if len(b) < RecordHeaderLen+r.Len {
			return
		}
		payload := b[RecordHeaderLen : RecordHeaderLen+r.Len]
		got := AppendRecord(nil, 1, r.Epoch, r.Seq, r.Proven, payload)
		if back := ParseRecord(got); !bytes.Equal(got[:24], b[:24]) || back.CheckSum(1, payload) != Valid {
			t.Errorf("got %x want %x", got[:24], b[:24])
		}
	})
}
