package mpa_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// ADVERSARY 16: revision x M x C x R x S x A, B, C, D x IRD x ORD x private data, as raw octets, against
// every kind of responder. What a responder must do is stated here a second time, in terms of the bits.

var (
	matrixDepths  = []uint16{0, 1, 7, 128, 0x3ffe, 0x3fff}
	matrixPrivate = []int{0, 1, 3, 4, 5, 12, 508, 512, 513, 600}
)

// rawFrame is a startup frame in bits.
type rawFrame struct {
	key        string
	flags, rev byte
	word       uint32
	pd         int // octets of private data, including the word
}

func (f rawFrame) wire() []byte {
	b := append([]byte(f.key), f.flags, f.rev, byte(f.pd>>8), byte(f.pd))
	data := binary.BigEndian.AppendUint32(nil, f.word)
	return append(b, append(data, ramp(1, 3, 600)...)[:f.pd]...)
}

// ulp returns the private data after the word.
func (f rawFrame) ulp() []byte {
	b := f.wire()[mpa.StartupHeaderLen:]
	if f.enhanced() {
		return b[4:]
	}
	return b
}

func (f rawFrame) enhanced() bool { return f.rev == 2 && f.flags&0x10 != 0 }
func (f rawFrame) ird() uint16    { return uint16(f.word>>16) & 0x3fff }
func (f rawFrame) ord() uint16    { return uint16(f.word) & 0x3fff }

// rtr returns the options of the word; A must be set for them to count.
func (f rawFrame) rtr() (r mpa.RTR) {
	if f.word&0x40000000 != 0 {
		r |= mpa.RTRSend
	}
	if f.word&0x8000 != 0 {
		r |= mpa.RTRWrite
	}
	if f.word&0x4000 != 0 {
		r |= mpa.RTRRead
	}
	return r
}

func word(abcd int, ird, ord uint16) uint32 {
	w := uint32(ird)<<16 | uint32(ord)
	for i, bit := range []uint32{0x4000, 0x8000, 0x40000000, 0x80000000} {
		if abcd>>i&1 != 0 {
			w |= bit
		}
	}
	return w
}

// matrix calls f with every frame. If the enhanced word is not used, its bits are private data like any
// other, and a few values are enough.
func matrix(key string, f func(rawFrame)) {
	for rev := range byte(4) {
		for flags := range 16 {
			for _, pd := range matrixPrivate {
				fr := rawFrame{key: key, flags: byte(flags) << 4, rev: rev, pd: pd}
				for abcd := range 16 {
					words(fr, abcd, f)
				}
			}
		}
	}
}

func words(fr rawFrame, abcd int, f func(rawFrame)) {
	if !fr.enhanced() || fr.pd != 4 && fr.pd != 512 {
		fr.word = word(abcd, 5, 0x3fff)
		f(fr)
		return
	}
	for _, ird := range matrixDepths {
		for _, ord := range matrixDepths {
			fr.word = word(abcd, ird, ord)
			f(fr)
		}
	}
}

var matrixResponders = []mpa.Config{
	{IRD: 9, ORD: 5},
	{IRD: 9, ORD: 5, Markers: true, NoCRC: true},
	{IRD: 0, ORD: 128, Markers: true, WantMarkers: true, RTR: mpa.RTRWrite | mpa.RTRSend},
	{IRD: 7, ORD: 0, MaxRev: 1, Markers: true, NoCRC: true, RTR: mpa.RTRRead},
	{IRD: 3, ORD: 4, RefusePlain: true, RTR: mpa.RTRSend},
}

func TestRequestMatrix(t *testing.T) {
	for i := range matrixResponders {
		cfg := &matrixResponders[i]
		n := 0
		matrix(mpa.RequestKey, func(f rawFrame) {
			n++
			checkRequest(t, cfg, f)
		})
		t.Logf("%d Requests to %+v", n, *cfg)
	}
}

func checkRequest(t *testing.T, cfg *mpa.Config, f rawFrame) {
	r := responder(t, *cfg)
	wire := f.wire()
	n, err := r.Input(wire)
	_, refused := errors.AsType[*mpa.RefuseError](err)
	malformed := err != nil && !refused
	maxRev := byte(2)
	if cfg.MaxRev == 1 {
		maxRev = 1
	}
	wantMalformed := f.rev > maxRev || f.pd > 512 || f.enhanced() && f.pd < 4
	wantRefused := f.rev == 0 || f.flags&0x80 != 0 && !cfg.Markers || !f.enhanced() && cfg.RefusePlain
	if malformed != wantMalformed || refused != (wantRefused && !malformed) || !malformed && n != len(wire) {
		t.Fatalf("%+v to %+v: %d, %v", f, *cfg, n, err)
	}
	switch {
	case malformed:
		if b, err := r.Reject(nil, nil); err == nil {
			t.Fatalf("%+v answered by %x", f, b)
		}
	case refused:
		b, err := r.Reject(nil, []byte("no"))
		if err != nil || b[16]&^0x40 != 0x20|f.flags&0x10&-(f.rev>>1<<4) || b[17] != max(f.rev, 1) || !bytes.HasSuffix(b, []byte("no")) {
			t.Fatalf("%+v rejected by %x, %v", f, b, err)
		}
	default:
		checkAccept(t, cfg, f, r)
	}
}

// checkAccept compares the Reply, octet by octet, and the outcome.
func checkAccept(t *testing.T, cfg *mpa.Config, f rawFrame, r *mpa.Responder) {
	got, err := r.Accept(nil, []byte("yes"))
	if err != nil {
		t.Fatal(err)
	}
	reply, res := wantReply(cfg, f)
	want := append([]byte(mpa.ReplyKey), reply.flags, reply.rev, 0, 3)
	if f.enhanced() {
		want[19] = 7
		want = binary.BigEndian.AppendUint32(want, reply.word)
	}
	if want = append(want, "yes"...); !bytes.Equal(got, want) {
		t.Fatalf("%+v to %+v:\ngot  %x\nwant %x", f, *cfg, got, want)
	}
	if !bytes.Equal(r.Result().PrivateData, f.ulp()) {
		t.Fatalf("%+v: private data %x", f, r.Result().PrivateData)
	}
	r.Result().PrivateData = nil
	if !reflect.DeepEqual(*r.Result(), res) {
		t.Fatalf("%+v to %+v:\ngot  %+v\nwant %+v", f, *cfg, *r.Result(), res)
	}
}

// wantReply states RFC 5044 Section 7.1 and RFC 6581 Section 9 for a responder.
func wantReply(cfg *mpa.Config, f rawFrame) (reply rawFrame, res mpa.Negotiation) {
	crc := f.flags&0x40 != 0 || !cfg.NoCRC
	reply.rev = f.rev
	if crc {
		reply.flags |= 0x40
	}
	if cfg.WantMarkers {
		reply.flags |= 0x80
	}
	res = mpa.Negotiation{
		Rev: f.rev, CRC: crc, SendMarkers: f.flags&0x80 != 0, RecvMarkers: cfg.WantMarkers,
		IRD: cfg.IRD, ORD: cfg.ORD, PeerIRD: 0x3fff, PeerORD: 0x3fff,
	}
	if !f.enhanced() {
		res.ORD = min(cfg.ORD, 1)
		return reply, res
	}
	reply.flags |= 0x10
	res.Enhanced, res.PeerIRD, res.PeerORD = true, f.ird(), f.ord()
	rtr := 0
	if f.word&0x80000000 != 0 {
		res.PeerToPeer, res.RTR = true, wantOptions(cfg, f.rtr())
		rtr = 8
	}
	ird, ord := uint16(0x3fff), uint16(0x3fff) // "not negotiated" is answered in kind
	if f.ord() != 0x3fff {
		ird = min(cfg.IRD, f.ord())
		if res.RTR&mpa.RTRRead != 0 && ird == 0 {
			ird = 1
		}
		res.IRD = ird
	}
	if f.ird() != 0x3fff {
		ord = min(cfg.ORD, f.ird()) // "MUST" not be above the initiator's IRD
		res.ORD = ord
	}
	for i, o := range []mpa.RTR{mpa.RTRRead, mpa.RTRWrite, mpa.RTRSend} {
		if res.RTR&o != 0 {
			rtr |= 1 << i
		}
	}
	reply.word = word(rtr, ird, ord)
	return reply, res
}

// wantOptions returns the options that are both requested and supported, Send only if there is no other;
// if there are none, all supported ones.
func wantOptions(cfg *mpa.Config, asked mpa.RTR) mpa.RTR {
	have := cfg.RTR
	if have == 0 {
		have = mpa.RTRSend | mpa.RTRWrite | mpa.RTRRead
	}
	switch both := asked & have; both {
	case 0:
		return have
	case mpa.RTRSend:
		return both
	default:
		return both &^ mpa.RTRSend
	}
}
