package nfs3_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// fuzzMessage checks one message type on arbitrary octets: what parses is encoded again to
// the octets consumed, except pads, and parses again.
func fuzzMessage(t *testing.T, fresh func() xdr.Message, b []byte) {
	m := fresh()
	d := xdr.NewDecoder(b)
	if xdr.Decode(&d, m).Err() != nil {
		return
	}
	used := len(b) - d.Len()
	again := xdr.Encode(nil, m)
	if len(again) != used {
		t.Fatalf("%T: %d octets parsed, %d encoded", m, used, len(again))
	}
	m2 := fresh()
	d = xdr.NewDecoder(again)
	if err := xdr.Decode(&d, m2).Err(); err != nil || d.Len() != 0 {
		t.Fatalf("%T: own encoding: %v, %d octets left", m, err, d.Len())
	}
	if last := xdr.Encode(nil, m2); !bytes.Equal(last, again) {
		t.Fatalf("%T: %x, then %x", m, again, last)
	}
}

func addSeeds(f *testing.F, res bool) {
	for _, r := range table {
		if r.res == res {
			f.Add(uint32(r.p), r.wire)
			if len(r.wire) > 4 {
				f.Add(uint32(r.p), r.wire[:len(r.wire)-3])
			}
		}
	}
}

func FuzzArgs(f *testing.F) {
	addSeeds(f, false)
	f.Fuzz(func(t *testing.T, proc uint32, b []byte) { fuzzMessage(t, nfs3.Proc(proc%nfs3.ProcCount).NewArgs, b) })
}

func FuzzRes(f *testing.F) {
	addSeeds(f, true)
	f.Fuzz(func(t *testing.T, proc uint32, b []byte) { fuzzMessage(t, nfs3.Proc(proc%nfs3.ProcCount).NewRes, b) })
}
