package server

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestRefusedStays: a change that was refused before leases were recalled is not allowed afterwards,
// though the rights have come meanwhile.
func TestRefusedStays(t *testing.T) {
	s, err := New(&Config{Exports: []Export{{Path: "/export", FS: mem.New(nil), Squash: SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	o := op{s: s, proc: nfs3.ProcRemove, exp: s.table.Load().list[0]}
	o.guard.refused = nfs3.ErrAcces
	if err := o.writable(); !errors.Is(err, nfs3.ErrAcces) {
		t.Error(err)
	}
}
