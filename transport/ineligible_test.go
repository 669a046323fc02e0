package transport_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestItemNotEligible has a handler mark a result that the binding does not know,
// for a client that offers a write chunk all the same: it stays in the reply, and the
// chunk comes back unused (RFC 8166 Section 4.3.2).
func TestItemNotEligible(t *testing.T) {
	_, addr := startServer(t, newEcho(), &transport.Config{}) // NFSv3 only
	p := rawClient(t, addr, rawConfig(plainPrivate(), 4096))
	mem, long := make([]byte, 9000), make([]byte, 9000)
	w := chunks.WriteChunk{p.offer(mem, region.RemoteWrite)}
	reply := chunks.WriteChunk{p.offer(long, region.RemoteWrite)}
	for _, n := range []uint32{5, 5001} {
		h := rpcrdma.Header{XID: n, Lists: chunks.Lists{Write: []chunks.WriteChunk{w}, Reply: reply, HasReply: true}}
		p.send(header(h), rpcCall(n, procFill, words(n)...))
		got, payload := p.recv()
		if len(got.Write) != 1 || got.Write[0].Room() != 0 {
			t.Errorf("%d octets: write chunk came back as %+v", n, got.Write)
		}
		if got.Type == rpcrdma.MsgTypeNoMsg {
			payload = long[:got.Reply.Room()]
		}
		d := xdr.NewDecoder(payload)
		var r xdr.ReplyHeader
		if err := r.Parse(&d); err != nil || r.Err() != nil {
			t.Fatalf("%d octets: %v, %v", n, err, r.Err())
		}
		if data := d.Opaque(9000); sum(data) != sum(filled(int(n))) || d.Err() != nil || d.Len() != 0 {
			t.Errorf("%d octets: %d came, %v", n, len(data), d.Err())
		}
	}
}

// TestResponse uses the methods that the echo program does not use.
func TestResponse(t *testing.T) {
	sent := make(chan struct{}, 8)
	h := rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		resp.OnSent(func() { sent <- struct{}{} })
		switch req.Proc {
		case 1:
			resp.Results = append(resp.Results, 1, 2, 3, 4)
			resp.Deny(xdr.AuthTooWeak)
		case 2: // two items, neither a multiple of 4
			resp.AppendItem([]byte("abcde"))
			resp.AppendItem([]byte("fg"))
		case 3:
			resp.Verf = xdr.Auth{Flavor: 77, Body: []byte("proof")}
			resp.Results = xdr.AppendString(resp.Results, req.Network+" "+req.RemoteAddr.Network())
		case 4:
			resp.AppendItem(make([]byte, 100_000)) // fits nowhere
		}
	})
	_, c := pair(t, h, &transport.Config{}, &transport.Config{})
	_, sc := startStream(t, h, nil)
	for network, c := range map[string]rpc.Caller{"rdma": c, "tcp": sc} {
		t.Run(network, func(t *testing.T) {
			var r rpc.Reply
			defer r.Release()
			do := func(proc uint32) error {
				err := c.Do(testCtx(t), &rpc.Call{Prog: testProg, Vers: testVers, Proc: proc}, &r)
				<-sent
				return err
			}
			if err := do(1); err != nil || !r.Header.Denied || r.Header.AuthStat != xdr.AuthTooWeak || len(r.Results) != 0 {
				t.Errorf("denied call: %v, %+v, %d octets", err, r.Header, len(r.Results))
			}
			err := do(2)
			d := xdr.NewDecoder(r.Results)
			if a, b := d.String(9), d.String(9); err != nil || a != "abcde" || b != "fg" || d.Len() != 0 {
				t.Errorf("two items: %v, %q, %q", err, a, b)
			}
			err = do(3)
			d = xdr.NewDecoder(r.Results)
			if s := d.String(20); err != nil || s != network+" tcp" || string(r.Header.Verf.Body) != "proof" {
				t.Errorf("%v, %q, verifier %+v", err, s, r.Header.Verf)
			}
			if network == "rdma" {
				if e, ok := errors.AsType[*rpc.RPCError](do(4)); !ok || e.Reason != rpc.ReasonChunk {
					t.Errorf("reply that fits nowhere: %v", e)
				}
			}
		})
	}
}
