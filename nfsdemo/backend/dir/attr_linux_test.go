package dir_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestDevices: made by root, refused to others.
func TestDevices(t *testing.T) {
	f, _ := open(t, nil)
	for _, typ := range []nfs3.FileType{nfs3.TypeChr, nfs3.TypeBlk} {
		n, a, err := f.Root().Create(typ.String(), &backend.Init{Type: typ, Rdev: nfs3.Device{Major: 1, Minor: 300}, Attr: in644.Attr})
		if err == nfs3.ErrPerm { // also root may lack the right, in a container
			continue
		}
		ok(t, err)
		if a.Type != typ || a.Rdev != (nfs3.Device{Major: 1, Minor: 300}) || a.Mode != 0o644 {
			t.Errorf("%+v", a)
		}
		_, err = n.Read(make([]byte, 1), 0)
		want(t, err, nfs3.ErrInval)
	}
	_, _, err := f.Root().Create("x", &backend.Init{Type: 8, Attr: in644.Attr})
	want(t, err, nfs3.ErrBadType)
}
