package mpa_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

const (
	reqHex = "4d504120494420526571204672616d65"
	repHex = "4d504120494420526570204672616d65"
	// RFC 8797 data of the vectors.
	pdHex = "f6ab0e1801010303"
)

var startupVectors = []struct {
	name  string
	reply bool
	wire  string
	frame mpa.Frame
}{
	{"rev 1", false, "40010000", mpa.Frame{Rev: 1, CRC: true}},
	{"rev 1 reply", true, "40010000", mpa.Frame{Rev: 1, CRC: true}},
	{"rev 1 rejected", true, "e0010000", mpa.Frame{Rev: 1, CRC: true, Markers: true, Rejected: true}},
	{"peer to peer", false, "5002000cc010c010" + pdHex, mpa.Frame{
		Rev: 2, CRC: true, Enhanced: true,
		Word: mpa.Enhanced{PeerToPeer: true, RTR: anyRTR, IRD: 16, ORD: 16},
	}},
	{"peer to peer reply", true, "5002000c80108008" + pdHex, mpa.Frame{
		Rev: 2, CRC: true, Enhanced: true,
		Word: mpa.Enhanced{PeerToPeer: true, RTR: mpa.RTRWrite, IRD: 16, ORD: 8},
	}},
	{"rejected, wants ORD", true, "7002000400040020", mpa.Frame{
		Rev: 2, CRC: true, Rejected: true, Enhanced: true, Word: mpa.Enhanced{IRD: 4, ORD: 32},
	}},
	{"not negotiated", false, "500200043fff3fff", mpa.Frame{
		Rev: 2, CRC: true, Enhanced: true, Word: mpa.Enhanced{IRD: mpa.NotNegotiated, ORD: mpa.NotNegotiated},
	}},
	// Observed from the Linux client: no CRC, IRD 128, ORD 0.
	{"linux", false, "1002000c00800000" + pdHex, mpa.Frame{
		Rev: 2, Enhanced: true, Word: mpa.Enhanced{IRD: 128},
	}},
	{"siw flag", false, "08020000", mpa.Frame{Rev: 2, Reserved: 8}},
}

func TestStartupVectors(t *testing.T) {
	for _, tt := range startupVectors {
		t.Run(tt.name, func(t *testing.T) {
			key, parse := reqHex, parseRequest
			emit := func(f mpa.Frame, b []byte) ([]byte, error) { return (&mpa.Request{f}).Append(b) }
			if tt.reply {
				key, parse = repHex, parseReply
				emit = func(f mpa.Frame, b []byte) ([]byte, error) { return (&mpa.Reply{f}).Append(b) }
			}
			wire, want := unhex(t, key+tt.wire), tt.frame
			want.PrivateData = []byte{}
			if len(wire) > 24 {
				want.PrivateData = unhex(t, pdHex)
			}
			got, n, err := parse(append(bytes.Clone(wire), 1, 2, 3))
			if err != nil || n != len(wire) || !reflect.DeepEqual(got, want) {
				t.Errorf("parse = %+v, %d, %v\nwant %+v", got, n, err, want)
			}
			out, err := emit(want, dirty(64))
			if err != nil || !bytes.Equal(out, wire) {
				t.Errorf("append\n got %x\nwant %x, %v", out, wire, err)
			}
			for cut := range wire {
				if _, n, err := parse(wire[:cut]); n != 0 || err != nil {
					t.Errorf("cut at %d: n %d, %v", cut, n, err)
				}
			}
		})
	}
}

func parseRequest(b []byte) (mpa.Frame, int, error) {
	r, n, err := mpa.ParseRequest(b)
	return r.Frame, n, err
}

func parseReply(b []byte) (mpa.Frame, int, error) {
	r, n, err := mpa.ParseReply(b)
	return r.Frame, n, err
}

func TestStartupMalformed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parse func([]byte) (mpa.Frame, int, error)
		wire  string
		cause error
		field string
		off   int
	}{
		{"http", parseRequest, "474554202f", mpa.ErrKey, "Key", 0},
		{"last key octet", parseRequest, reqHex[:30] + "66", mpa.ErrKey, "Key", 15},
		{"reply for request", parseRequest, repHex[:26], mpa.ErrRole, "Key", 9},
		{"request for reply", parseReply, reqHex[:26], mpa.ErrRole, "Key", 9},
		{"rev 0", parseRequest, reqHex + "40000000", mpa.ErrRevision, "Rev", 17},
		{"rev 3", parseRequest, reqHex + "40030000", mpa.ErrRevision, "Rev", 17},
		{"rev 3 rejected flag", parseRequest, reqHex + "60030000", mpa.ErrRevision, "Rev", 17},
		{"rev 0 reply", parseReply, repHex + "40000000", mpa.ErrRevision, "Rev", 17},
		{"rev 3 reply", parseReply, repHex + "40030000", mpa.ErrRevision, "Rev", 17},
		{"513 octets", parseRequest, reqHex + "40020201", mpa.ErrPrivateData, "PD_Length", 18},
		{"513 octets, rejected", parseReply, repHex + "60020201", mpa.ErrPrivateData, "PD_Length", 18},
		{"65535 octets", parseReply, repHex + "4002ffff", mpa.ErrPrivateData, "PD_Length", 18},
		{"no word", parseRequest, reqHex + "10020000", mpa.ErrEnhanced, "enhanced word", 20},
		{"short word", parseRequest, reqHex + "10020003aabbcc", mpa.ErrEnhanced, "enhanced word", 20},
		{"short word, R in request", parseRequest, reqHex + "30020003aabbcc", mpa.ErrEnhanced, "enhanced word", 20},
		{"no word in reply", parseReply, repHex + "10020000", mpa.ErrEnhanced, "enhanced word", 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := tt.parse(unhex(t, tt.wire))
			e, ok := errors.AsType[*mpa.FormatError](err)
			if !ok || !errors.Is(err, tt.cause) || e.Field != tt.field || e.Off != tt.off || e.Error() == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}
