package xdr_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

// allocLimit is what a decoder may allocate for n octets of input: copies of
// strings and groups, errors, and noise of the test binary itself, but nothing
// that a length on the wire asks for.
func allocLimit(n int) uint64 { return uint64(8*n) + 256<<10 }

// bounded runs f and fails when it allocates more than n octets of input may
// cost.
func bounded(t *testing.T, n int, f func()) {
	t.Helper()
	if got := allocated(f); got > allocLimit(n) {
		t.Errorf("%d octets allocated for %d octets of input", got, n)
	}
}

func addSeeds(f *testing.F, hexes ...string) {
	for _, s := range hexes {
		b := unhex(f, s)
		f.Add(b)
		if len(b) > 4 {
			f.Add(b[:len(b)-3])
		}
	}
}

// A header that parses is written again octet for octet, pads aside, and
// Refusal has an answer for every outcome.
func FuzzCallHeader(f *testing.F) {
	addSeeds(f, goldenCall,
		"00000007 00000000 00000003",
		"01020304 00000000 00000002 00000001 00000001 00000001 00000001 ffffffff",
		"01020304 00000000 00000002 00000001 00000001 00000001 00000000 00000000 00000000 00000190")
	f.Fuzz(func(t *testing.T, b []byte) {
		bounded(t, len(b), func() {
			var h xdr.CallHeader
			d := xdr.NewDecoder(b)
			err := h.Parse(&d)
			r, owed := h.Refusal(err)
			if owed && (r.Err() == nil || r.XID != h.XID) {
				t.Errorf("a refusal that refuses nothing: %+v", r)
			}
			if err != nil || h.RPCVers != xdr.RPCVersion {
				return
			}
			again := xdr.AppendCall(nil, &h)
			if len(again) != d.Offset() || h.Size() != len(again) {
				t.Errorf("%d octets read, %d written, Size %d", d.Offset(), len(again), h.Size())
			}
			samePrefix(t, again, b, 24)
			if stat := h.CheckAuth(); (stat == xdr.AuthOK) == owed {
				t.Errorf("CheckAuth %v, refused %v", stat, owed)
			}
		})
	})
}

// samePrefix compares the first n octets.
func samePrefix(t *testing.T, got, want []byte, n int) {
	t.Helper()
	if !bytes.Equal(got[:n], want[:n]) {
		t.Errorf("%x became %x", want[:n], got[:n])
	}
}

func FuzzReplyHeader(f *testing.F) {
	addSeeds(f, goldenSuccess, goldenProgMis, goldenRPCMis, goldenTooWeak, goldenGarbageArgs,
		"01020304000000010000000000000006ffffffff")
	f.Fuzz(func(t *testing.T, b []byte) {
		bounded(t, len(b), func() {
			var h xdr.ReplyHeader
			d := xdr.NewDecoder(b)
			if h.Parse(&d) != nil {
				return
			}
			again := xdr.AppendReply(nil, &h)
			if len(again) != d.Offset() || h.Size() != len(again) {
				t.Errorf("%d octets read, %d written, Size %d", d.Offset(), len(again), h.Size())
			}
			samePrefix(t, again, b, 16)
			if (h.Err() == nil) != (!h.Denied && h.Accept == xdr.Success) {
				t.Errorf("Err %v of %+v", h.Err(), h)
			}
		})
	})
}

// A credential that parses is what CheckAuth accepts, and is written again in
// the same octets, the pad aside.
func FuzzSysCred(f *testing.F) {
	c := goldenCred()
	f.Add(c.Append(nil))
	f.Add(append(c.Append(nil), 0))
	f.Add(unhex(f, "00000000ffffffff"))
	f.Add(unhex(f, "00000000000000000000000000000000ffffffff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		bounded(t, len(b), func() {
			c, err := xdr.ParseSysCred(b)
			h := xdr.CallHeader{RPCVers: 2, Cred: xdr.Auth{Flavor: xdr.AuthSys, Body: b}}
			if (err == nil) != (h.CheckAuth() == xdr.AuthOK) {
				t.Errorf("parsed with %v, CheckAuth %v", err, h.CheckAuth())
			}
			if err == nil && len(c.Append(nil)) != len(b) {
				t.Errorf("%x became %x", b, c.Append(nil))
			}
		})
	})
}

// A program of reads, two octets each (what, bound), over any octets: never a
// panic, never beyond the input, offset and octets left always add up.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0, 0, 2, 0, 4, 9}, unhex(f, "000000010000000000000002000000036162630a"))
	f.Add([]byte{5, 255, 6, 3}, unhex(f, "ffffffff"))
	f.Add([]byte{9, 0}, unhex(f, "3fffffff61626364"))
	f.Add([]byte{9, 0}, unhex(f, "ffffffff"))
	f.Add([]byte{7, 8, 8, 200, 3, 0}, unhex(f, "0000000200000001000000020000000300000004"))
	f.Fuzz(func(t *testing.T, prog, b []byte) {
		bounded(t, len(b), func() {
			d := xdr.NewDecoder(b)
			for ; len(prog) >= 2; prog = prog[2:] {
				before := d
				step(&d, prog[0]%10, int(prog[1]))
				if d.Err() == nil && d.Offset()+d.Len() != len(b) {
					t.Fatalf("offset %d and %d left of %d", d.Offset(), d.Len(), len(b))
				}
				if before.Err() != nil && d.Offset() != before.Offset() {
					t.Fatal("moved after an error")
				}
			}
		})
	})
}

func step(d *xdr.Decoder, op byte, n int) {
	switch op {
	case 0:
		d.Uint32()
	case 1:
		d.Int32()
	case 2:
		d.Uint64()
	case 3:
		d.Int64()
	case 4:
		d.Bool()
	case 5:
		d.FixedOpaque(n)
	case 6:
		d.Opaque(n)
	case 7:
		d.Skip(n)
	case 8:
		d.Skip(4 * d.Count(n, 4))
	case 9:
		_ = d.String(math.MaxInt)
	}
}

// Any stream, cut into any reads: the records are those of a reader that has
// it whole, the bound holds, and memory stays near what arrived.
func FuzzRecordReader(f *testing.F) {
	f.Add(fragment(nil, []byte("abcdefgh"), 3, 0, 2), byte(1))
	f.Add(fragment(fragment(nil, nil), pattern(5000), 2500), byte(7))
	f.Add(unhex(f, "ffffffff00"), byte(2))
	f.Add(bytes.Repeat([]byte{0}, 100), byte(3))
	f.Fuzz(func(t *testing.T, stream []byte, chop byte) {
		const limit = 1 << 16
		bounded(t, len(stream), func() {
			whole := xdr.NewRecordReader(bytes.NewReader(stream), limit)
			cut := xdr.NewRecordReader(&stride{stream, int(chop) + 1}, limit)
			for {
				a, errA := whole.Next(nil)
				b, errB := cut.Next(nil)
				if !bytes.Equal(a, b) || (errA == nil) != (errB == nil) || len(a) > limit {
					t.Fatalf("%d octets and %v, cut %d octets and %v", len(a), errA, len(b), errB)
				}
				if errA != nil {
					if !errors.Is(errB, errA) && errA.Error() != errB.Error() {
						t.Fatalf("%v, cut %v", errA, errB)
					}
					return
				}
			}
		})
	})
}

// stride is a reader that gives at most n octets at once.
type stride struct {
	b []byte
	n int
}

func (s *stride) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.n)], s.b)
	s.b = s.b[n:]
	return n, nil
}
