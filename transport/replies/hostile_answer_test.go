package replies_test

import (
	"context"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// villain is a client that offers a log which is none, to a server that appends to it.
type villain struct {
	*rand.Rand
	rpc string
	key key
	did map[string]int
}

// lies change the answer that the server is to append by; a good one comes in.
var lies = map[string]func(v *villain, a *commitlog.Answer){
	"good": func(*villain, *commitlog.Answer) {},
	"capacity": func(v *villain, a *commitlog.Answer) {
		a.Capacity = []uint64{0, 64, 1 << 63, 1<<64 - 64, v.Uint64()}[v.IntN(5)]
	},
	"tail": func(v *villain, a *commitlog.Answer) {
		a.Head = []uint64{0, 64, 1 << 63, 1<<64 - 64, v.Uint64() &^ 63}[v.IntN(5)]
		a.Tail = a.Head + []uint64{0, 64, a.Capacity, a.Capacity + 64, 1}[v.IntN(5)]
	},
	"seq":   func(v *villain, a *commitlog.Answer) { a.NextSeq = []uint64{0, 1, 1<<64 - 1, v.Uint64()}[v.IntN(4)] },
	"epoch": func(v *villain, a *commitlog.Answer) { a.Epoch, a.LastEpoch = v.Uint32(), v.Uint32N(3) },
	"mode": func(v *villain, a *commitlog.Answer) {
		a.Mode, a.Hash = commitlog.Mode(v.Uint32N(4)), commitlog.Hash(v.Uint32N(4))
	},
	"stags": func(v *villain, a *commitlog.Answer) { a.RingSTag, a.TailSTag, a.HeadSTag = v.Uint32(), a.RingSTag, 0 },
	"small": func(_ *villain, a *commitlog.Answer) { a.Capacity = 256 },
}

// TestHostile: clients whose logs are none, lie about them, tell heads that cannot be, say what nobody
// asked, or nothing, get their replies without records; another client has all of its own, and
// nothing is left of them (ADVERSARY 20).
func TestHostile(t *testing.T) {
	p := &replies.Pusher{MaxClients: 64}
	p.SetTimes(10*time.Millisecond, 0)
	w := start(t, p)
	mem := sim(1 << 14)
	created(t, mem)
	c := w.open(mem)
	var mu sync.Mutex
	named := 0
	stop := calling(t, c, func(seq uint64, _ uint32) {
		if seq > 0 {
			c.Done(seq)
			mu.Lock()
			named++
			mu.Unlock()
		}
	})
	var wg sync.WaitGroup
	var villains []*villain
	for i := range 3 {
		v := &villain{Rand: rand.New(rand.NewPCG(1, uint64(i))), rpc: w.rpc, did: make(map[string]int)}
		binary.BigEndian.PutUint64(v.key[:], v.Uint64())
		villains = append(villains, v)
		wg.Go(func() {
			for _, name := range slices.Repeat(slices.Sorted(maps.Keys(lies)), 3) {
				v.offer(t, name)
				v.did[name]++
			}
		})
	}
	wg.Wait()
	stop()
	for _, v := range villains {
		if v.did["records"] == 0 {
			t.Error("the valid messages of this villain had no effect either:", v.did)
		}
	}
	mu.Lock()
	if named == 0 {
		t.Error("the honest client had no records meanwhile")
	}
	mu.Unlock()
	for { // one client, which is connected
		if clients, _, conns := p.Left(); clients == 1 && conns <= 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
}

// offer offers a log, lies about it, and makes calls whose replies are to go there.
func (v *villain) offer(t *testing.T, lie string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := transport.Dial(ctx, "tcp", v.rpc, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if lie == "good" || v.IntN(2) == 0 { // else the server knows it, and another log
		v.fill(v.key[:])
	}
	r, err := offer(ctx, c, offerArgs{Client: v.key, Epoch: v.Uint32(), Connect: true})
	if err != nil {
		t.Error(err)
		return
	}
	if r.Status != statusConnect {
		return // busy
	}
	nc, err := net.Dial("tcp", r.At.Addr)
	if err != nil {
		t.Error(err)
		return
	}
	l := rdmap.Client(nc, commitlog.Config(&rdmap.Config{Startup: rdmap.Startup{PrivateData: rendezvous.PrivateData(r.At.Token)}}))
	defer l.Abort(nil)
	if l.Handshake(ctx) != nil {
		return // the token is too old
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = l.Serve() })
	mem := sim(4096)
	created(t, mem)
	log, err := commitlog.Open(mem)
	if err != nil {
		t.Error(err)
		return
	}
	v.answer(ctx, l, log, lies[lie])
	var reply rpc.Reply
	for n := uint32(0); n < 5 || lie == "good" && v.did["records"] == 0 && l.Err() == nil; n++ {
		if err := c.Do(ctx, &rpc.Call{Prog: program, Vers: 1, Proc: 1, Args: xdr.AppendUint32(nil, n)}, &reply); err != nil {
			t.Error("its calls are answered:", err)
			break
		}
		reply.Release()
		if lie != "good" {
			v.say(ctx, l)
		} else if r, _ := log.TryNext(); r != nil {
			v.did["records"]++
		}
	}
	l.Abort(nil)
	serving.Wait()
	if err := log.Close(ctx); err != nil {
		t.Error(err)
	}
}

// answer is the first message on the connection of the log: a good one, except the lie.
func (v *villain) answer(ctx context.Context, l *rdmap.Conn, log *commitlog.Log, lie func(*villain, *commitlog.Answer)) {
	a, err := log.Advertise(ctx, l)
	if err != nil {
		return // the connection is over
	}
	lie(v, a)
	_ = l.Send(ctx, a.Append(nil))
}

// fill fills an identity.
func (v *villain) fill(b []byte) {
	for i := range b {
		b[i] = byte(v.Uint32())
	}
}

// say tells a head, or something else.
func (v *villain) say(ctx context.Context, l *rdmap.Conn) {
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], []uint64{0, 64, 63, 4096, 1 << 63, 1<<64 - 1, v.Uint64()}[v.IntN(7)])
	switch v.IntN(3) {
	case 0:
		_ = l.SendImmediate(ctx, word, v.IntN(2) == 0)
	case 1:
		b := make([]byte, v.IntN(200))
		v.fill(b)
		_ = l.Send(ctx, b)
	}
}
