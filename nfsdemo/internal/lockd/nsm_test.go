package lockd_test

import (
	"encoding/hex"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/xdr"
)

// TestWire compares the messages with their octets, in both directions.
func TestNsmWire(t *testing.T) {
	n := lockd.Notify{Name: []byte("abc"), State: 5}
	b := xdr.Encode(nil, &n)
	if got := hex.EncodeToString(b); got != "000000036162630000000005" {
		t.Error(got)
	}
	var back lockd.Notify
	d := xdr.NewDecoder(b)
	if err := xdr.Decode(&d, &back).Err(); err != nil || d.End() != nil || string(back.Name) != "abc" || back.State != 5 {
		t.Errorf("%+v, %v", back, err)
	}
	r := lockd.StatRes{Outcome: lockd.Fail, State: 7}
	d = xdr.NewDecoder(xdr.Encode(nil, &r))
	var res lockd.StatRes
	if err := xdr.Decode(&d, &res).Err(); err != nil || d.End() != nil || res != r {
		t.Errorf("%+v, %v", res, err)
	}
}

// FuzzNotify parses any octets.
func FuzzNotify(f *testing.F) {
	f.Add(xdr.Encode(nil, &lockd.Notify{Name: []byte("abc"), State: 5}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n lockd.Notify
		d := xdr.NewDecoder(b)
		if xdr.Decode(&d, &n).Err() == nil && len(xdr.Encode(nil, &n)) != len(b)-d.Len() {
			t.Fatalf("%+v from %x", n, b)
		}
	})
}
