package transport_test

import (
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/transport/rpc"
)

// A call that meets the end of its connection between its credit and its
// registration fails because the wire is cut, not because the call was wrong.
func TestCallMeetsTheEnd(t *testing.T) {
	_, c := pair(t, new(echo), nil, nil)
	noErr(t, c.Conn().Table().Close(testCtx(t)))
	call := echoCall(filled(20_000))
	var r rpc.Reply
	err := c.Do(testCtx(t), call, &r)
	if _, ok := errors.AsType[*rpc.OpError](err); !ok || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want an OpError that is net.ErrClosed", err)
	}
	if _, ok := errors.AsType[*rpc.RPCError](err); ok {
		t.Errorf("%v blames the call", err)
	}
}
