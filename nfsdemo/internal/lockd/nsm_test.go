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
	b := n.Append(nil)
	if got := hex.EncodeToString(b); got != "000000036162630000000005" {
		t.Error(got)
	}
	var back lockd.Notify
	d := xdr.NewDecoder(b)
	if err := back.Parse(&d); err != nil || d.End() != nil || string(back.Name) != "abc" || back.State != 5 {
		t.Errorf("%+v, %v", back, err)
	}
	r := lockd.StatRes{Outcome: lockd.Fail, State: 7}
	d = xdr.NewDecoder(r.Append(nil))
	var res lockd.StatRes
	if err := res.Parse(&d); err != nil || d.End() != nil || res != r {
		t.Errorf("%+v, %v", res, err)
	}
}

// FuzzNotify parses any octets.
func FuzzNotify(f *testing.F) {
	f.Add((&lockd.Notify{Name: []byte("abc"), State: 5}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n lockd.Notify
		d := xdr.NewDecoder(b)
		if n.Parse(&d) == nil && len(n.Append(nil)) != len(b)-d.Len() {
			t.Fatalf("%+v from %x", n, b)
		}
	})
}
