package exports_test

import (
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
)

func ExampleParse() {
	e, err := exports.Parse("/srv/data,ro,client=192.0.2.0/24", exports.Defaults())
	fmt.Println(e.Path, e.ReadOnly, e.Squash, e.Secure, e.Allow, err)
	_, err = exports.Parse("/srv/data,anonuid=0", exports.Defaults())
	fmt.Println(err)
	// Output:
	// /srv/data true root_squash true [192.0.2.0/24] <nil>
	// /srv/data,anonuid=0: anonuid=0: want a number from 1 to 4294967294
}
