package gss_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stag-rdma/stag/internal/gsstest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss"
)

// A mechanism is one function at each end. Here it is one for tests.
func Example() {
	server := transport.Config{GSS: transport.GSS{Accept: gsstest.Accept}}
	alice := gss.NewClient(gss.Privacy, func(context.Context) (gss.Handshake, error) {
		return gsstest.Initiate("alice", 1, time.Hour), nil
	})
	client := transport.Config{GSS: transport.GSS{Client: alice}} // for calls with Cred: xdr.Auth{Flavor: xdr.RPCSECGSS}
	fmt.Println(server.Check(), client.Check(), alice.Service())
	// Output: <nil> <nil> privacy
}
