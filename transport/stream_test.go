package transport_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// startStream serves h on loopback TCP and connects a client.
func startStream(t testing.TB, h rpc.Handler, cfg *transport.Config) (*transport.Server, *transport.StreamClient) {
	t.Helper()
	s, addr := served(t, overTCP, h, cfg)
	return s, dialStream(t, addr, cfg)
}

func TestStreamTooBig(t *testing.T) {
	_, c := startStream(t, newEcho(), &transport.Config{MaxPayload: 4096})
	err := try(t, c, echoCall(make([]byte, 4096)))
	if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonTooBig {
		t.Errorf("call above MaxPayload: %v", err)
	}
	mustDo(t, c, &rpc.Call{Prog: testProg, Vers: testVers})
}
