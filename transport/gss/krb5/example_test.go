package krb5_test

import (
	"fmt"
	"os"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/gss/krb5"
)

// A server with a keytab, and a client whose user has run kinit. Here both are missing.
func Example() {
	if kt, err := krb5.LoadKeytab("/nonexistent"); err == nil {
		_ = &transport.Config{GSS: transport.GSS{Accept: kt.Accept}}
	} else {
		fmt.Println(os.IsNotExist(err))
	}
	alice := gss.NewClient(gss.Integrity, krb5.FromCache("nfs.example.org"))
	cfg := &transport.Config{GSS: transport.GSS{Client: alice}}
	fmt.Println(cfg.Check())
	// Output:
	// true
	// <nil>
}
