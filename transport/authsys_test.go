package transport_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestOwnCredentialTooLong: what no server could decode is not sent.
func TestOwnCredentialTooLong(t *testing.T) {
	s, c := pair(t, newEcho(), nil, nil)
	for _, call := range []rpc.Call{
		{Prog: testProg, Vers: testVers, Cred: xdr.Auth{Flavor: xdr.AuthSys, Body: make([]byte, 401)}},
		{Prog: testProg, Vers: testVers, Verf: xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, 401)}},
	} {
		if e, ok := errors.AsType[*rpc.RPCError](try(t, c, &call)); !ok || e.Reason != rpc.ReasonBadCall {
			t.Errorf("%v", e)
		}
	}
	if n := s.Stats().Calls + s.Stats().Errors; n != 0 {
		t.Errorf("the server has seen %d calls", n)
	}
	mustDo(t, c, &nullCall)
}
