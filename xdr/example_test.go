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

func ExampleAppendCall() {
	cred := xdr.SysCred{MachineName: "client1", UID: 1000, GID: 1000}
	h := xdr.CallHeader{XID: 1, RPCVers: xdr.RPCVersion, Prog: 100003, Vers: 3, Cred: cred.Auth()}
	msg := xdr.AppendCall(nil, &h)
	msg = append(msg, "arguments..."...)

	xid, msgType, _ := xdr.PeekXID(msg)
	fmt.Println(xid, msgType == xdr.MsgCall, h.Size())

	var got xdr.CallHeader
	d := xdr.NewDecoder(msg)
	err := got.Parse(&d)
	fmt.Println(got.Prog, got.Vers, got.Proc, got.Cred.Flavor, err)
	fmt.Printf("%s\n", d.Rest())
	// Output:
	// 1 true 68
	// 100003 3 0 AUTH_SYS <nil>
	// arguments...
}
