package machine_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
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

func goldenHeader() machine.Header {
	h := machine.Header{Mode: machine.WAL, Capacity: 1024, Generation: 3, Epoch: 2, First: 4, Before: 1}
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
	var back machine.Header
	if err := back.Parse(got, 0); err != nil || back != h || h.Slot() != machine.BlockSize {
		t.Errorf("%+v %v, slot %d", back, err, h.Slot())
	}
	salt := h.Salt(2)
	if salt != goldSalt || h.Salt(3) == salt {
		t.Errorf("salt %#x", salt)
	}

	head := machine.Head{Pos: 192, Seq: 4}
	if got := hex.EncodeToString(head.Append(nil, &h.ID)); got != goldHead+goldHeadSum {
		t.Errorf("head %s", got)
	}
	var hb machine.Head
	if err := hb.Parse(unhex(t, goldHead+goldHeadSum), &h.ID, machine.HeadOff); err != nil || hb != head {
		t.Error(hb, err)
	}

	rec := machine.AppendRecord(nil, salt, 2, 4, 192, []byte("hello"))
	if want := append(unhex(t, goldRecord+goldRecordSum), "hello"...); !bytes.HasPrefix(rec, want) || len(rec) != machine.Align {
		t.Errorf("record %x", rec)
	}
	fill := machine.AppendFiller(nil, salt, 2, 5, 256, 64)
	if !bytes.HasPrefix(fill, unhex(t, goldFiller+goldFillerSum)) || len(fill) != machine.Align {
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
		{"magic", 0, 'X', true, machine.ErrMagic},
		{"version", 11, 3, false, machine.ErrVersion},
		{"checksum", 30, 0xff, false, machine.ErrChecksum},
		{"mode", 15, 3, true, machine.ErrValue},
		{"hash", 71, 0, true, machine.ErrValue},
		{"another hash", 71, 2, true, machine.ErrValue},
		{"epoch before", 83, 2, true, machine.ErrValue},
		{"capacity", 23, 1, true, machine.ErrSize},
		{"empty ring", 22, 0, true, machine.ErrSize},
	} {
		h := goldenHeader()
		b := h.Append(nil)
		b[tt.off] = tt.to
		if tt.sum {
			resum(b)
		}
		err := new(machine.Header).Parse(b, machine.BlockSize)
		e, ok := errors.AsType[*machine.FormatError](err)
		if !errors.Is(err, tt.kind) || !ok || e.Off < machine.BlockSize || !strings.Contains(err.Error(), tt.kind.Error()) {
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
	for _, h := range []machine.Head{{Pos: 1, Seq: 1}, {Pos: 64, Seq: 0}} {
		if err := new(machine.Head).Parse(h.Append(nil, &id), &id, machine.HeadOff); !errors.Is(err, machine.ErrValue) {
			t.Errorf("%+v: %v", h, err)
		}
	}
	if err := new(machine.Head).Parse(machine.Head{Pos: 64, Seq: 9}.Append(nil, &id), &[16]byte{2}, 0); !errors.Is(err, machine.ErrChecksum) {
		t.Error("the head of another log:", err)
	}
}

func TestRecordChecks(t *testing.T) {
	const salt = 77
	payload := []byte("some payload")
	good := machine.Expected{Pos: 1024 + 128, Seq: 9, MinEpoch: 1, Last: 3, Limit: 4096, Capacity: 1024}
	check := func(b []byte, p machine.Expected, salt uint64) machine.Reason {
		r := machine.ParseRecord(b)
		if why := r.CheckHeader(&p); why != machine.Valid {
			return why
		}
		if r.Filler != 0 {
			return r.CheckSum(salt, nil)
		}
		return r.CheckSum(salt, b[machine.RecordHeaderLen:machine.RecordHeaderLen+r.Len])
	}
	rec := machine.AppendRecord(nil, salt, 2, 9, 0, payload)
	if why := check(rec, good, salt); why != machine.Valid {
		t.Fatal(why)
	}
	for _, tt := range []struct {
		name   string
		change func(b []byte, p *machine.Expected)
		want   machine.Reason
	}{
		{"older epoch", func(_ []byte, p *machine.Expected) { p.MinEpoch = 3 }, machine.BadEpoch},
		{"epoch to come", func(_ []byte, p *machine.Expected) { p.Last = 1 }, machine.BadEpoch},
		{"number", func(_ []byte, p *machine.Expected) { p.Seq = 8 }, machine.BadSequence},
		{"tail", func(_ []byte, p *machine.Expected) { p.Limit = p.Pos + 63 }, machine.BeyondTail},
		{"too long", func(b []byte, _ *machine.Expected) { b[2] = 2 }, machine.BadLength},
		{"negative", func(b []byte, _ *machine.Expected) { b[0], b[3] = 0x80, 0 }, machine.BadLength},
		{"filler of another size", func(b []byte, _ *machine.Expected) { b[0], b[3] = 0x80, 64 }, machine.BadLength},
		{"over the end", func(_ []byte, p *machine.Expected) { p.Pos, p.Limit = 2048-0, 8192 }, machine.Valid},
		{"payload", func(b []byte, _ *machine.Expected) { b[machine.RecordHeaderLen] ^= 1 }, machine.BadChecksum},
		{"length", func(b []byte, _ *machine.Expected) { b[3]-- }, machine.BadChecksum},
	} {
		b, p := bytes.Clone(rec), good
		tt.change(b, &p)
		if why := check(b, p, salt); why != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, why, tt.want)
		}
	}
	if why := check(rec, good, salt+1); why != machine.BadChecksum {
		t.Error("another salt:", why)
	}
	long := machine.AppendRecord(nil, salt, 2, 9, 0, make([]byte, 100))
	p := good
	p.Pos = 1024 + 960
	if why := check(long, p, salt); why != machine.BadLength {
		t.Error("a record across the end:", why)
	}
	fill := machine.AppendFiller(nil, salt, 2, 9, 0, 64)
	if why := check(fill, p, salt); why != machine.Valid {
		t.Error("filler:", why)
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		capacity uint64
		limit    int
	}{{256, 100}, {320, 100}, {1 << 20, 1<<19 - 28}, {1 << 40, machine.MaxPayload}} {
		if got := machine.PayloadLimit(tt.capacity); got != tt.limit {
			t.Errorf("%d: %d, want %d", tt.capacity, got, tt.limit)
		}
	}
	for n, want := range map[int]uint64{0: 64, 36: 64, 37: 128, 4096: 4160} {
		if got := machine.RecordSize(n); got != want {
			t.Errorf("%d octets take %d, want %d", n, got, want)
		}
	}
	for _, n := range []uint64{0, 192, 257, 1 << 63} {
		if machine.CheckCapacity(n) == nil {
			t.Errorf("accepted a ring of %d octets", n)
		}
	}
}

// TestLastEpoch: the header tells whose the last record is, though an epoch may have had none, and
// so may all before it.
func TestLastEpoch(t *testing.T) {
	var h machine.Header
	next := uint64(1)
	for i, appended := range []uint64{0, 0, 3, 0, 0, 1} {
		h.Begin(next, [16]byte{})
		next += appended
		if want := []uint32{0, 0, 3, 3, 3, 6}[i]; h.LastEpoch(next) != want || h.Epoch != uint32(i+1) {
			t.Errorf("%d records in epoch %d: the last is of %d, want %d", appended, h.Epoch, h.LastEpoch(next), want)
		}
	}
	if h := (machine.Header{Epoch: 5}); h.LastEpoch(1) != 5 { // of a program that wrote zeros: nobody may rely on less
		t.Error(h.LastEpoch(1))
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{machine.Strict.String(), "strict"},
		{machine.WAL.String(), "wal"},
		{machine.Mode(9).String(), "Mode(9)"},
		{machine.CRC32C.String(), "crc32c"},
		{machine.Hash(9).String(), "Hash(9)"},
		{machine.BadEpoch.String(), "wrong epoch"},
		{machine.Missing.String(), "gone, with all records after it"},
		{machine.Reason(99).String(), "Reason(99)"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
