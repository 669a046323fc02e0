package mpa_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// Any octets: a frame that parses is encoded to the same octets, and every prefix of an incomplete frame
// is incomplete.
func FuzzStartupFrame(f *testing.F) {
	for _, v := range startupVectors {
		key := reqHex
		if v.reply {
			key = repHex
		}
		f.Add(unhex(f, key+v.wire+pdHex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, n, err := mpa.ParseRequest(b)
		if err == nil && n > 0 {
			out, err := q.Append(nil)
			// At revision 1 the S bit is reserved and not kept.
			if err != nil || !sameFrame(out, b[:n], q.Rev == 1) {
				t.Fatalf("%x became %x, %v", b[:n], out, err)
			}
		}
		p, n, err := mpa.ParseReply(b)
		if err == nil && n > 0 && !p.Rejected {
			out, err := p.Append(nil)
			if err != nil || !sameFrame(out, b[:n], p.Rev == 1) {
				t.Fatalf("%x became %x, %v", b[:n], out, err)
			}
		}
		for cut := range min(n, len(b)) {
			if _, m, err := mpa.ParseReply(b[:cut]); m != 0 || err != nil {
				t.Fatalf("prefix of %d: %d, %v", cut, m, err)
			}
		}
	})
}

func sameFrame(got, want []byte, ignoreS bool) bool {
	want = bytes.Clone(want)
	if ignoreS {
		want[16] &^= 0x10
	}
	return bytes.Equal(got, want)
}

// Any octets in any pieces: both startup machines end as they do when they see everything at once, except
// that octets after the frame may arrive too late to be seen.
func FuzzStartupMachines(f *testing.F) {
	f.Add(unhex(f, reqHex+"5002000cc010c010"+pdHex), uint8(3))
	f.Add(unhex(f, reqHex+"d0020000"), uint8(1))
	f.Add(unhex(f, repHex+"5002000cc010c010"+pdHex), uint8(7))
	f.Add(unhex(f, repHex+"7002000400040020"), uint8(20))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		run := func(input func([]byte) (int, error), step int) (n int, err error) {
			for end := 0; n == 0 && err == nil && end < len(b); {
				end = min(end+step, len(b))
				n, err = input(b[:end])
			}
			return n, err
		}
		for name, fresh := range map[string]func() (func([]byte) (int, error), func() *mpa.Negotiation){
			"responder": func() (func([]byte) (int, error), func() *mpa.Negotiation) {
				r := responder(t, mpa.Config{IRD: 16, ORD: 16})
				return func(b []byte) (int, error) {
					n, err := r.Input(b)
					if n > 0 && err == nil {
						if _, err := r.Accept(nil, nil); err != nil {
							t.Fatal(err)
						}
					}
					return n, err
				}, r.Result
			},
			"initiator": func() (func([]byte) (int, error), func() *mpa.Negotiation) {
				i := initiator(t, mpa.Config{IRD: 16, ORD: 16, PeerToPeer: true})
				i.AppendRequest(nil)
				return i.Input, i.Result
			},
		} {
			in, res1 := fresh()
			n1, err1 := run(in, len(b)+1)
			in, res2 := fresh()
			n2, err2 := run(in, int(step)+1)
			if errors.Is(err1, mpa.ErrTrailing) {
				continue
			}
			if n1 != n2 && err1 == nil || (err1 == nil) != (err2 == nil) || err1 == nil && !reflect.DeepEqual(res1(), res2()) {
				t.Fatalf("%s: whole %d, %v; pieces %d, %v", name, n1, err1, n2, err2)
			}
		}
	})
}

// Split invariance: any chopping of any octets gives the same ULPDUs, the same rest
// and the same error.
func FuzzDeframer(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(append(bytes.Clone(v.fpdu), v.fpdu...), []byte{1, 2, 30}, true)
	}
	alike, _ := run(rand.New(rand.NewPCG(1, 2)), 6, 30)
	f.Add(alike, []byte{200}, true)
	alike[5*mpa.FPDULen(30)-9]++
	f.Add(alike, []byte{150, 1, 7}, true)
	f.Add([]byte{0xff, 0xff, 0, 0}, []byte{0}, true)
	f.Add(make([]byte, 64), []byte{5}, false)
	f.Fuzz(func(t *testing.T, stream, sizes []byte, crc bool) {
		want, rest1, err1 := deframe(stream, crc, func() int { return len(stream) })
		at := 0
		got, rest2, err2 := deframe(stream, crc, func() int {
			if len(sizes) == 0 {
				return 1
			}
			at++
			return int(sizes[at%len(sizes)])
		})
		if !equal(got, want) || (err1 == nil) != (err2 == nil) || err1 == nil && !bytes.Equal(rest1, rest2) {
			t.Fatalf("%d ULPDUs, %d left, %v; whole: %d, %d, %v", len(got), len(rest2), err2, len(want), len(rest1), err1)
		}
		total := len(rest1)
		for _, u := range want {
			total += mpa.FPDULen(len(u))
		}
		if err1 == nil && total != len(stream) {
			t.Fatalf("%d of %d octets accounted for", total, len(stream))
		}
	})
}

// What is written is read back.
func FuzzFPDURoundTrip(f *testing.F) {
	f.Add([]byte("HELLO"), uint8(2), true)
	f.Add([]byte{}, uint8(0), false)
	f.Fuzz(func(t *testing.T, ulpdu []byte, at uint8, crc bool) {
		if len(ulpdu) > 0xffff {
			return
		}
		wire := mpa.AppendFPDU(make([]byte, at), ulpdu, crc)[at:] // after other FPDUs
		d := mpa.Deframer{CRC: crc}
		got, n, err := d.Next(wire)
		if err != nil || n != len(wire) || !bytes.Equal(got, ulpdu) {
			t.Fatalf("%x: %x, %d, %v", wire, got, n, err)
		}
	})
}
