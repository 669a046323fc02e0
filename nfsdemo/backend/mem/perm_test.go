package mem

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestMay compares with the rule written another way.
func TestMay(t *testing.T) {
	creds := []caller.Identity{
		{UID: 0, GID: 0}, {UID: 1, GID: 1}, {UID: 1, GID: 2}, {UID: 3, GID: 2}, {UID: 3, GID: 4, Groups: []uint32{9, 2}}, {UID: 5, GID: 6},
	}
	for _, typ := range []nfs3.FileType{nfs3.TypeReg, nfs3.TypeDir} {
		for m := range uint32(0o1000) {
			a := nfs3.Attr{Type: typ, Mode: m, UID: 1, GID: 2}
			for i, c := range creds {
				for want := uint32(1); want < 8; want++ {
					var bits uint32
					switch i {
					case 0:
						bits = 7
						if typ == nfs3.TypeReg && m&0o111 == 0 {
							bits = 6
						}
					case 1, 2:
						bits = m / 64
					case 3, 4:
						bits = m / 8 % 8
					default:
						bits = m % 8
					}
					if got := (&file{who: &c}).may(&a, want); got != (bits&want == want) {
						t.Fatalf("%v mode %o, cred %d, want %o: %v", typ, m, i, want, got)
					}
				}
			}
		}
	}
}
