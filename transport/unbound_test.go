package transport_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// The program of these tests, which no binding of the package names, and its one procedure: an opaque in and out.
const (
	unboundProg = 400300
	unboundProc = 7
)

// opaques lets the argument and the result of that procedure travel in chunks.
var opaques = chunks.Table{{Prog: unboundProg, Vers: 1, Proc: unboundProc, Arg: chunks.After(), Result: chunks.After()}}

// unboundPair is a server that echoes and a client, each with a binding or without.
func unboundPair(t *testing.T, server, client chunks.Binding) (*transport.Server, rpc.Caller, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	h := rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		if req.Proc == procNull { // which asks for the grant
			return
		}
		d := xdr.NewDecoder(req.Args)
		p := d.Opaque(1 << 20)
		if len(p) == 3000 { // the result does not fit into a Send
			p = make([]byte, 9000)
		}
		b := resp.Scratch(len(p))
		copy(b, p)
		resp.AppendItem(b)
	})
	s, addr := served(t, overRDMA, h, &transport.Config{Binding: server, Logger: zap.New(core), InlineRecv: 4096})
	return s, connect(t, "rdma", addr, &transport.Config{Binding: client}), logs
}

// unboundCall has n octets as its item, and room for as many.
func unboundCall(n int) *rpc.Call {
	return &rpc.Call{
		Prog: unboundProg, Vers: 1, Proc: unboundProc, Args: xdr.AppendUint32(nil, uint32(n)), Item: make([]byte, n), ItemPos: 4,
		Sink: make([]byte, n), MaxResults: 8,
	}
}

// TestSinkNeedsBinding: a Sink is filled, or the call is refused and the error names the binding; nothing was sent.
func TestSinkNeedsBinding(t *testing.T) {
	for name, b := range map[string]chunks.Binding{"no binding": nil, "a binding for other procedures": opaques} {
		s, c, _ := unboundPair(t, opaques, b)
		call := unboundCall(9000)
		call.Proc += 2
		call.Item = nil
		call.Args = xdr.AppendOpaque(nil, []byte("short"))
		var r rpc.Reply
		err := c.Do(t.Context(), call, &r)
		e, ok := errors.AsType[*rpcrdma.BindingError](err)
		if !ok || e.Prog != unboundProg || e.Vers != 1 || e.Proc != call.Proc || !strings.Contains(err.Error(), "Config.Binding") {
			t.Errorf("%s: %v", name, err)
		}
		if n := s.Stats().Calls; n != 0 {
			t.Errorf("%s: %d calls were sent", name, n)
		}
		call.Sink = nil
		if err := c.Do(t.Context(), call, &r); err != nil {
			t.Errorf("%s, without a Sink: %v", name, err)
		}
		r.Release()
	}
	_, c, _ := unboundPair(t, opaques, opaques)
	call := unboundCall(9000)
	for i := range call.Item {
		call.Item[i] = byte(i)
	}
	var r rpc.Reply
	defer r.Release()
	if err := c.Do(t.Context(), call, &r); err != nil || !r.Placed || len(r.Item) != 9000 || string(call.Sink) != string(call.Item) {
		t.Errorf("with a binding: %v, placed %v, %d", err, r.Placed, len(r.Item))
	}
}

// TestErrChunkNamesBinding: a call whose argument, or whose result, the server's binding does not let travel in chunks gets
// ERR_CHUNK. The client's error says so, and the server counts it, and logs it once for a connection.
func TestErrChunkNamesBinding(t *testing.T) {
	for name, change := range map[string]func(call *rpc.Call){
		"argument": func(call *rpc.Call) { call.Sink, call.MaxResults = nil, 20_000 },
		"result":   func(call *rpc.Call) { call.Args, call.Item = xdr.AppendOpaque(nil, call.Item[:3000]), nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, c, logs := unboundPair(t, nil, opaques)
			for range 3 {
				call := unboundCall(9000)
				change(call)
				var r rpc.Reply
				err := c.Do(t.Context(), call, &r)
				e, ok := errors.AsType[*rpc.RPCError](err)
				b, named := errors.AsType[*rpcrdma.BindingError](err)
				if !ok || e.Reason != rpc.ReasonChunk || !named || *b != (rpcrdma.BindingError{Prog: unboundProg, Vers: 1, Proc: unboundProc}) {
					t.Fatalf("%v", err)
				}
				if !strings.Contains(err.Error(), "server") || !strings.Contains(err.Error(), "Config.Binding") {
					t.Errorf("%v", err)
				}
			}
			if st := s.Stats(); st.Unbound != 3 || st.Errors != 3 {
				t.Errorf("%d unbound, %d errors", st.Unbound, st.Errors)
			}
			if n := logs.FilterMessageSnippet("Binding").Len(); n != 1 {
				t.Errorf("%d lines: %v", n, logs.All())
			}
		})
	}
}
