package xdr_test

import (
	"fmt"

	"github.com/stag-rdma/stag/xdr"
)

// A structure is read field by field; one test at the end is enough.
func Example() {
	b := xdr.AppendUint32(nil, 1000)
	b = xdr.AppendString(b, "client1")
	b = xdr.AppendOpaque(b, []byte{0xca, 0xfe})

	d := xdr.NewDecoder(b)
	uid, name, handle := d.Uint32(), d.String(255), d.Opaque(64)
	fmt.Println(uid, name, handle, d.ErrIn("args"))

	d = xdr.NewDecoder(b[:10])
	uid, name, handle = d.Uint32(), d.String(255), d.Opaque(64)
	fmt.Println(uid, name == "", handle, d.ErrIn("args"))
	// Output:
	// 1000 client1 [202 254] <nil>
	// 1000 true [] xdr: args at octet 4: not enough octets
}
