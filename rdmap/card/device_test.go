package card_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/card"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
)

const (
	prog     = 0x20000099
	procBack = 1 // the answer is that of the client, who is called back
	procEnd  = 2 // the server ends
)

// back is the server: it answers a call with what the client answers to the same.
type back struct{ end chan struct{} }

func (back) Describe(req *rpc.Request) rpc.Traits { return rpc.Traits{Blocks: req.Proc == procBack} }

func (b back) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	switch req.Proc {
	case procBack:
		var r rpc.Reply
		defer r.Release()
		if err := req.Backward.Do(ctx, &rpc.Call{Prog: prog, Vers: 1, Proc: procBack, Args: req.Args}, &r); err != nil {
			resp.Stat = 5 // SYSTEM_ERR
			return
		}
		resp.Results = append(resp.Results, r.Results...)
	case procEnd:
		close(b.end)
	}
}

// device returns the address of a device in the environment: two guests of conformance/linux/card.sh have one.
func device(t *testing.T, name string) string {
	addr := os.Getenv(name)
	if addr == "" {
		t.Skip("needs an RDMA device: make cards")
	}
	return addr
}

// TestDeviceServer serves TestDeviceClient of another machine.
func TestDeviceServer(t *testing.T) {
	l, err := card.Listen(device(t, "STAG_CARD_LISTEN"), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := back{make(chan struct{})}
	s := &transport.Server{Handler: h, Config: &transport.Config{Backward: transport.Backward{Credits: 4}}}
	go s.Serve(l)
	<-h.end
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// TestDeviceClient: calls come back over the connection of the call that they serve. One during which the connection ends is
// sent again on another, and called back there.
func TestDeviceClient(t *testing.T) {
	addr := device(t, "STAG_CARD_DIAL")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	var live net.Conn
	made, called := 0, 0
	handler := rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		mu.Lock()
		defer mu.Unlock()
		if called++; called%5 == 0 {
			_ = live.Close()
		}
		resp.Results = append(append(resp.Results, req.Args...), "back"...)
	})
	c, err := redial.New(&redial.Config{Dial: func(ctx context.Context) (redial.Conn, error) {
		nc, err := card.Dial(ctx, addr, nil)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		live = nc
		made++
		mu.Unlock()
		return transport.NewClient(ctx, nc, &transport.Config{Backward: transport.Backward{Credits: 4, Handler: handler}})
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 17 {
		var r rpc.Reply
		args := bytes.Repeat([]byte{byte(i), 1, 2, 3}, 20)
		if err := c.Do(ctx, &rpc.Call{Prog: prog, Vers: 1, Proc: procBack, Args: args, Repeatable: true}, &r); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if want := append(args, "back"...); !bytes.Equal(r.Results, want) {
			t.Errorf("call %d: %q", i, r.Results)
		}
		r.Release()
	}
	if made != 5 || called != 21 {
		t.Errorf("%d connections and %d calls back, want 5 and 21", made, called)
	}
	var r rpc.Reply
	if err := c.Do(ctx, &rpc.Call{Prog: prog, Vers: 1, Proc: procEnd}, &r); err != nil {
		t.Error(err)
	}
	r.Release()
}
