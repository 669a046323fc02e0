package pushwrite

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// FuzzStore: whatever a record of the leases holds is read or refused, and what was read comes back from a record with it.
func FuzzStore(f *testing.F) {
	e := stored{ID: 1, Log: "log", Grant: server.Grant{File: nfs3.FileHandle{1, 2}, Cred: server.Cred{UID: 7, GIDs: []uint32{1, 2, 3}}}}
	f.Add(encodeEntry(entryGrant, &e))
	f.Add(encodeEntry(entryVoid, &stored{ID: 2, Log: "log", Grant: server.Grant{File: nfs3.FileHandle{3}}}))
	f.Add(encodeEntry(entryOver, &e))
	f.Add(encodeEntry(entryLast, &stored{ID: 9}))
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, e, err := parseEntry(b)
		if err != nil {
			return
		}
		if again := encodeEntry(kind, &e); !bytes.Equal(again, b) {
			t.Errorf("%+v is %x, then %x", e, b, again)
		}
	})
}
