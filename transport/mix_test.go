package transport_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestMix makes calls of all forms and sizes over TCP, from several clients at once, to handlers that run in the reader, in
// goroutines, take their time and pull their data; some calls are cancelled. Every reply is the right one, and nothing stays.
func TestMix(t *testing.T) {
	rdmaptest.Mix(t, mix)
}

var mixOctets = sync.OnceValue(func() []byte { return rdmaptest.Octets(4 << 20) })

// mixHandler is echo, but every call is handled in another way.
type mixHandler struct {
	*echo
	n    atomic.Uint64
	slow bool
}

func (h *mixHandler) roll(n int) int { return rand.New(rand.NewPCG(h.n.Add(1), 7)).IntN(n) }

func (h *mixHandler) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: h.roll(4) == 0, Lazy: req.Proc == procEcho && h.roll(3) == 0}
}

func (h *mixHandler) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if h.slow && h.roll(8) == 0 {
		time.Sleep(time.Duration(h.roll(1<<h.roll(15))) * time.Microsecond)
	}
	if req.Proc != procEcho {
		h.echo.ServeRPC(ctx, req, resp)
		return
	}
	d := xdr.NewDecoder(req.Args)
	o := req.Opaque(&d, 8<<20)
	if d.Err() != nil {
		resp.Stat = xdr.GarbageArgs
		return
	}
	var p []byte
	var err error
	switch h.roll(3) {
	case 0:
		p, err = o.Pull(ctx)
	case 1:
		p = resp.Buffer(o.Len())
		err = o.PullInto(ctx, p)
	default:
		p = resp.Buffer(o.Len())
		err = o.PullInto(ctx, p[:o.Len()/3], p[o.Len()/3:])
	}
	if err != nil {
		return
	}
	resp.AppendItem(p)
	resp.Results = xdr.AppendUint32(resp.Results, 0xfeedface)
}

func mix(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	before := memory.Shared.Live()
	pick := func(n ...int) int { return n[rnd.IntN(len(n))] }
	cfg := testConfig()
	cfg = configOf(rpcrdma.Profile(pick(int(rpcrdma.RFC8166), int(rpcrdma.RFC8166), int(rpcrdma.RFC5666))), cfg, 0)
	cfg.Startup.CRC = rdmap.CRCMode(pick(int(rdmap.CRCOn), int(rdmap.CRCOn), int(rdmap.CRCOff)))
	cfg.Credits, cfg.MaxPayload, cfg.Startup.MULPDU = pick(0, 3, 40), 8<<20, pick(0, 0, 0, 1400, 20_000)
	cfg.Startup.IRD, cfg.Startup.ORD = pick(0, 0, 2), pick(0, 0, 2)
	if cfg.Startup.IRD != 0 { // an accepting Reply's IRD is at least the ORD of the Request (RFC 6581 Section 9.1)
		cfg.Startup.ORD = cfg.Startup.IRD
	}
	if _, ok := card(t); ok {
		cfg.Startup.CRC, cfg.Startup.MULPDU = 0, 0 // of the engine
	}
	client := *cfg
	cfg.Limits.Memory = int64(pick(0, 9<<20))
	cfg.Reading.HandlerLimit = time.Duration(pick(0, 1)) * time.Millisecond
	cfg.InlineRecv, cfg.InlineSend = pick(0, 0, 20_000), pick(0, 0, 20_000)
	s, addr := startServer(t, &mixHandler{echo: newEcho(), slow: rnd.IntN(4) > 0}, cfg)
	until := time.Now().Add(rdmaptest.MixTime())
	var wg sync.WaitGroup
	for range 2 {
		c := must(dialAddr(testCtx(t), t, addr, &client))(t)
		defer c.Close()
		for range 4 {
			caller := rand.New(rand.NewPCG(rnd.Uint64(), 1))
			wg.Go(func() {
				for time.Now().Before(until) && !t.Failed() {
					mixCall(t, c, caller)
				}
			})
		}
	}
	wg.Wait()
	// Fewer than before: connections of earlier tests have ended meanwhile.
	waitFor(t, "all buffers are back", func() bool { return memory.Shared.Live() <= before && s.Stats().InFlight == 0 })
}

// mixCall makes one call and checks its reply.
func mixCall(t *testing.T, c *transport.Client, rnd *rand.Rand) {
	n := rnd.IntN(1 << (4 + rnd.IntN(18)))
	p := mixOctets()[rnd.IntN(len(mixOctets())-n):][:n]
	call := echoCall(p)
	call.MaxResults = n + 64
	form := rnd.IntN(5)
	switch form {
	case 0: // a reply chunk, if it does not fit inline
	case 1:
		call = wordCall(procList, uint32(n/4))
		call.MaxResults = n + 64
	case 2:
		call = itemCall(procSum, p)
	default:
		call.Sink, call.MaxResults = make([]byte, n), 64
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	if rnd.IntN(10) == 0 {
		time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Microsecond, cancel)
	}
	defer cancel()
	var r rpc.Reply
	defer r.Release()
	err := c.Do(ctx, call, &r)
	if err == nil {
		err = r.Header.Err()
	}
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		t.Errorf("form %d, %d octets: %v", form, n, err)
	case form == 1:
		want := make([]byte, 0, n)
		for i := range n / 4 {
			want = xdr.AppendUint32(want, uint32(i))
		}
		if !bytes.Equal(r.Results, want) {
			t.Errorf("a list of %d octets differs", n)
		}
	case form == 2:
		if want := xdr.AppendUint32(xdr.AppendUint32(nil, uint32(n)), sum(p)); !bytes.Equal(r.Results, want) {
			t.Errorf("the sum of %d octets: %x, want %x", n, r.Results, want)
		}
	default:
		checkEcho(t, &r, p, call.Sink)
	}
}
