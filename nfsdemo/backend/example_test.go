package backend_test

import (
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/backend"
)

func ExampleCheckName() {
	for _, name := range []string{"file", "..", "a/b", ""} {
		fmt.Printf("%q %v\n", name, backend.CheckName(name))
	}
	// Output:
	// "file" <nil>
	// ".." <nil>
	// "a/b" nfs3: NFS3ERR_ACCES
	// "" nfs3: NFS3ERR_ACCES
}
