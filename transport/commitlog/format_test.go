package commitlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// The octets that docs/commitlog-format.md shows. The sums and the salt were computed by
// another program, from the text.
const (
	goldHeader = "53544147434c4f47" + "00000002" + "00000002" + "0000000000000400" +
		"000102030405060708090a0b0c0d0e0f" + "101112131415161718191a1b1c1d1e1f" +
		"0000000000000003" + "00000002" + "00000001" + "0000000000000004" + "00000001" +
		"202122232425262728292a2b2c2d2e2f" +
		"303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f"
	goldHeaderSum = "5999105c"
	goldSalt      = 0xee6e64bd81f7bc7f
	goldHead      = "00000000000000c0" + "0000000000000004"
	goldHeadSum   = "139212b6"
	goldRecord    = "00000005" + "00000002" + "0000000000000004" + "00000000000000c0"
	goldRecordSum = "b2e736f3"
	goldFiller    = "80000040" + "00000002" + "0000000000000005" + "0000000000000100"
	goldFillerSum = "2b7e7197"
)

func goldenHeader() header {
	h := header{Mode: WAL, Capacity: 1024, Generation: 3, Epoch: 2, First: 4, Before: 1}
	for i := range 16 {
		h.ID[i], h.Key[i], h.Instance[i] = byte(i), byte(16+i), byte(32+i)
	}
	for i := range h.Owner {
		h.Owner[i] = byte(48 + i)
	}
	return h
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGolden(t *testing.T) {
	h := goldenHeader()
	want := append(unhex(t, goldHeader), make([]byte, 56)...)
	want = append(want, unhex(t, goldHeaderSum)...)
	got := h.Append(nil)
	if !bytes.Equal(got, want) {
		t.Errorf("header\n got %x\nwant %x", got, want)
	}
	var back header
	if err := back.Parse(got, 0); err != nil || back != h || h.Slot() != blockSize {
		t.Errorf("%+v %v, slot %d", back, err, h.Slot())
	}
	salt := h.Salt(2)
	if salt != goldSalt || h.Salt(3) == salt {
		t.Errorf("salt %#x", salt)
	}

	head := headSlot{Pos: 192, Seq: 4}
	if got := hex.EncodeToString(head.Append(nil, &h.ID)); got != goldHead+goldHeadSum {
		t.Errorf("head %s", got)
	}
	var hb headSlot
	if err := hb.Parse(unhex(t, goldHead+goldHeadSum), &h.ID, headOff); err != nil || hb != head {
		t.Error(hb, err)
	}

	rec := appendRecord(nil, salt, 2, 4, 192, []byte("hello"))
	if want := append(unhex(t, goldRecord+goldRecordSum), "hello"...); !bytes.HasPrefix(rec, want) || len(rec) != align {
		t.Errorf("record %x", rec)
	}
	fill := appendFiller(nil, salt, 2, 5, 256, 64)
	if !bytes.HasPrefix(fill, unhex(t, goldFiller+goldFillerSum)) || len(fill) != align {
		t.Errorf("filler %x", fill)
	}
}

func TestHeaderRefusals(t *testing.T) {
	for _, tt := range []struct {
		name string
		off  int
		to   byte
		sum  bool // make the checksum right again
		kind error
	}{
		{"magic", 0, 'X', true, ErrMagic},
		{"version", 11, 3, false, ErrVersion},
		{"checksum", 30, 0xff, false, ErrChecksum},
		{"mode", 15, 3, true, ErrValue},
		{"hash", 71, 0, true, ErrValue},
		{"another hash", 71, 2, true, ErrValue},
		{"epoch before", 83, 2, true, ErrValue},
		{"capacity", 23, 1, true, ErrSize},
		{"empty ring", 22, 0, true, ErrSize},
	} {
		h := goldenHeader()
		b := h.Append(nil)
		b[tt.off] = tt.to
		if tt.sum {
			resum(b)
		}
		err := new(header).Parse(b, blockSize)
		e, ok := errors.AsType[*FormatError](err)
		if !errors.Is(err, tt.kind) || !ok || e.Off < blockSize || !strings.Contains(err.Error(), tt.kind.Error()) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// resum makes the checksum of a header right.
func resum(b []byte) {
	c := crc(b[:188])
	copy(b[188:], c)
}

func TestHeadRefusals(t *testing.T) {
	id := [16]byte{1}
	for _, h := range []headSlot{{Pos: 1, Seq: 1}, {Pos: 64, Seq: 0}} {
		if err := new(headSlot).Parse(h.Append(nil, &id), &id, headOff); !errors.Is(err, ErrValue) {
			t.Errorf("%+v: %v", h, err)
		}
	}
	if err := new(headSlot).Parse(headSlot{Pos: 64, Seq: 9}.Append(nil, &id), &[16]byte{2}, 0); !errors.Is(err, ErrChecksum) {
		t.Error("the head of another log:", err)
	}
}

func TestRecordChecks(t *testing.T) {
	const salt = 77
	payload := []byte("some payload")
	good := expected{Pos: 1024 + 128, Seq: 9, MinEpoch: 1, Last: 3, Limit: 4096, Capacity: 1024}
	check := func(b []byte, p expected, salt uint64) Reason {
		r := parseRecord(b)
		if why := r.CheckHeader(&p); why != valid {
			return why
		}
		if r.Filler != 0 {
			return r.CheckSum(salt, nil)
		}
		return r.CheckSum(salt, b[recordHeaderLen:recordHeaderLen+r.Len])
	}
	rec := appendRecord(nil, salt, 2, 9, 0, payload)
	if why := check(rec, good, salt); why != valid {
		t.Fatal(why)
	}
	for _, tt := range []struct {
		name   string
		change func(b []byte, p *expected)
		want   Reason
	}{
		{"older epoch", func(_ []byte, p *expected) { p.MinEpoch = 3 }, badEpoch},
		{"epoch to come", func(_ []byte, p *expected) { p.Last = 1 }, badEpoch},
		{"number", func(_ []byte, p *expected) { p.Seq = 8 }, badSequence},
		{"tail", func(_ []byte, p *expected) { p.Limit = p.Pos + 63 }, beyondTail},
		{"too long", func(b []byte, _ *expected) { b[2] = 2 }, badLength},
		{"negative", func(b []byte, _ *expected) { b[0], b[3] = 0x80, 0 }, badLength},
		{"filler of another size", func(b []byte, _ *expected) { b[0], b[3] = 0x80, 64 }, badLength},
		{"over the end", func(_ []byte, p *expected) { p.Pos, p.Limit = 2048-0, 8192 }, valid},
		{"payload", func(b []byte, _ *expected) { b[recordHeaderLen] ^= 1 }, badChecksum},
		{"length", func(b []byte, _ *expected) { b[3]-- }, badChecksum},
	} {
		b, p := bytes.Clone(rec), good
		tt.change(b, &p)
		if why := check(b, p, salt); why != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, why, tt.want)
		}
	}
	if why := check(rec, good, salt+1); why != badChecksum {
		t.Error("another salt:", why)
	}
	long := appendRecord(nil, salt, 2, 9, 0, make([]byte, 100))
	p := good
	p.Pos = 1024 + 960
	if why := check(long, p, salt); why != badLength {
		t.Error("a record across the end:", why)
	}
	fill := appendFiller(nil, salt, 2, 9, 0, 64)
	if why := check(fill, p, salt); why != valid {
		t.Error("filler:", why)
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		capacity uint64
		limit    int
	}{{256, 100}, {320, 100}, {1 << 20, 1<<19 - 28}, {1 << 40, maxPayload}} {
		if got := PayloadLimit(tt.capacity); got != tt.limit {
			t.Errorf("%d: %d, want %d", tt.capacity, got, tt.limit)
		}
	}
	for n, want := range map[int]uint64{0: 64, 36: 64, 37: 128, 4096: 4160} {
		if got := recordSize(n); got != want {
			t.Errorf("%d octets take %d, want %d", n, got, want)
		}
	}
	for _, n := range []uint64{0, 192, 257, 1 << 63} {
		if checkCapacity(n) == nil {
			t.Errorf("accepted a ring of %d octets", n)
		}
	}
}

// TestLastEpoch: the header tells whose the last record is, though an epoch may have had none, and
// so may all before it.
func TestLastEpoch(t *testing.T) {
	var h header
	next := uint64(1)
	for i, appended := range []uint64{0, 0, 3, 0, 0, 1} {
		h.Begin(next, [16]byte{})
		next += appended
		if want := []uint32{0, 0, 3, 3, 3, 6}[i]; h.LastEpoch(next) != want || h.Epoch != uint32(i+1) {
			t.Errorf("%d records in epoch %d: the last is of %d, want %d", appended, h.Epoch, h.LastEpoch(next), want)
		}
	}
	if h := (header{Epoch: 5}); h.LastEpoch(1) != 5 { // of a program that wrote zeros: nobody may rely on less
		t.Error(h.LastEpoch(1))
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Strict.String(), "strict"},
		{WAL.String(), "wal"},
		{Mode(9).String(), "Mode(9)"},
		{CRC32C.String(), "crc32c"},
		{Hash(9).String(), "Hash(9)"},
		{badEpoch.String(), "wrong epoch"},
		{missing.String(), "gone, with all records after it"},
		{Reason(99).String(), "Reason(99)"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
