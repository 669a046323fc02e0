package push_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

var (
	hostileSeed = flag.Uint64("hostile.seed", 1, "seed of TestHostile")
	hostileActs = flag.Int("hostile.acts", 24, "what each villain of TestHostile does, at least")
	hostileFrom = flag.String("hostile.from", "", "address that the villains call from; empty: any")
	hostileRPC  = flag.String("hostile.rpc", "", "address of a live server that the villains are let loose on, instead of one of TestHostile")
)

// villain is a peer that does what no honest one does. It has a log of its own, since anybody may
// have one, and knows the names of others.
type villain struct {
	*rand.Rand
	rpc     string
	name    string // its logs have this name and a number
	lost    int    // the number
	secret  push.Secret
	opened  opened // by the last OPEN
	commit  string // address for commit connections
	victims []string
	did     map[string]int
}

// acts are what a villain does. Errors are what the server should answer, so they are not looked at.
var acts = map[string]func(v *villain, ctx context.Context){
	"octets":  (*villain).octets,
	"token":   (*villain).token,
	"half":    (*villain).half,
	"garbage": (*villain).garbage,
	"steal":   (*villain).steal,
	"append":  (*villain).append,
	"resume":  (*villain).resume,
	"tail":    func(v *villain, ctx context.Context) { v.native(ctx, v.tail) },
	"outside": func(v *villain, ctx context.Context) { v.native(ctx, v.outside) },
	"flood":   func(v *villain, ctx context.Context) { v.native(ctx, v.flood) },
	"records": func(v *villain, ctx context.Context) { v.native(ctx, v.records) },
	"read":    func(v *villain, ctx context.Context) { v.native(ctx, v.read) },
}

// TestHostile lets villains loose on a server, on its commit connections and its program, while others
// append by both ways. These lose nothing, get nothing of others, and the server has no more
// connections and sessions afterwards than they have (ADVERSARY 14, 20, 26).
func TestHostile(t *testing.T) {
	t.Parallel()
	if *hostileRPC != "" {
		rage(t, *hostileRPC, 1e6, *hostileActs, nil)
		return
	}
	w := start(t, &push.Server{
		Limits: push.Limits{MaxLogs: 1000, Capacity: 8192},
	})
	names := []string{"native", "calls"}
	sessions := []*push.Session{w.dial("native", nil), w.dial("calls", &push.Config{Best: push.Append})}
	readers := []*push.Reader{sessions[0].Reader(0), sessions[1].Reader(0)}
	var honest sync.WaitGroup
	stop := make(chan struct{})
	acked := make([]int, len(names))
	for i, s := range sessions {
		honest.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				want := fmt.Sprintf("%s %d", names[i], n)
				if _, err := s.Append(t.Context(), []byte(want)); err != nil {
					t.Errorf("%s: append %d: %v", names[i], n, err)
					return
				}
				rec, err := readers[i].Next(t.Context())
				if err != nil || string(rec.Payload) != want {
					t.Errorf("%s: read %d: %+v %v", names[i], n, rec, err)
					return
				}
				if err := readers[i].Release(t.Context(), rec.Seq); err != nil {
					t.Error(err)
					return
				}
				acked[i]++
			}
		})
	}
	rage(t, w.rawRPC, 3, *hostileActs, names)
	close(stop)
	honest.Wait()
	late := time.Now().Add(time.Minute)
	for s := w.ps.Stats(); s.Conns > 1 || s.Sessions > len(names)+3+2; s = w.ps.Stats() { // each villain's log, leases and lock
		if time.Now().After(late) {
			t.Fatalf("%+v", s)
		}
		time.Sleep(time.Millisecond)
	}
	for i, name := range names {
		if acked[i] == 0 {
			t.Errorf("%s: nobody appended meanwhile", name)
		}
	}
	if st := w.ps.Stats(); st.Rejected == 0 || st.Refused == 0 || st.Native < 10 {
		t.Errorf("%+v", st)
	}
}

// rage has n villains, or as many as a second one allows, do their worst.
func rage(t *testing.T, rpc string, n, times int, victims []string) {
	var wg sync.WaitGroup
	for i := range min(n, 3) {
		v := &villain{
			secret: push.NewSecret(), Rand: rand.New(rand.NewPCG(*hostileSeed, uint64(i))), rpc: rpc,
			name: fmt.Sprintf("villain-%d-%d", time.Now().UnixNano(), i), victims: append([]string{"leases", "lock", "."}, victims...), did: make(map[string]int),
		}
		wg.Go(func() { v.run(t.Context(), times) })
		defer func() { t.Log(v.name, v.did) }()
	}
	wg.Wait()
}

func (v *villain) run(ctx context.Context, times int) {
	names := slices.Sorted(maps.Keys(acts))
	for n := range times {
		name := names[v.IntN(len(names))]
		if n < len(names) {
			name = names[n]
		}
		acts[name](v, ctx)
		v.did[name]++
	}
}

// call makes a call with a connection of its own, and returns the results.
func (v *villain) call(ctx context.Context, proc uint32, args []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	nc, err := v.connect(ctx, v.rpc)
	if err != nil {
		return nil, err
	}
	c, err := transport.NewClient(ctx, nc, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var reply rpc.Reply
	defer reply.Release()
	if err := c.Do(ctx, &rpc.Call{Prog: push.Program, Vers: push.Version, Proc: proc, Args: args}, &reply); err != nil {
		return nil, err
	}
	return append([]byte(nil), reply.Results...), reply.Header.Err()
}

// connect makes a connection.
func (v *villain) connect(ctx context.Context, addr string) (net.Conn, error) {
	d := new(net.Dialer)
	if *hostileFrom != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(*hostileFrom)}
	}
	return d.DialContext(ctx, "tcp", addr)
}

// open opens the villain's own log, as an honest client would.
func (v *villain) open(ctx context.Context, native bool) bool {
	a := openArgs{Native: native, Instance: key{byte(v.IntN(3))}}
	for range 6 {
		a.Name, a.Secret = fmt.Sprintf("%s-%d", v.name, v.lost), v.secret
		b, err := v.call(ctx, procOpen, push.Octets(&a))
		if err != nil {
			return false
		}
		var r openRes
		d := xdr.NewDecoder(b)
		switch xdr.Decode(&d, &r); {
		case r.Status == push.StatusLost: // it has seen to that: another log
			v.lost++
		case r.Status == push.StatusOK:
			v.opened = r.Opened
			if c := r.Opened.Commit; c != nil {
				v.commit = c.Addr
				if host, port, err := net.SplitHostPort(c.Addr); err == nil && host == "" {
					host, _, _ = net.SplitHostPort(v.rpc)
					v.commit = net.JoinHostPort(host, port)
				}
			}
			return true
		}
	}
	return false
}

// bytes returns up to n octets.
func (v *villain) bytes(n int) []byte {
	b := make([]byte, v.IntN(n))
	for i := range b {
		b[i] = byte(v.Uint32())
	}
	return b
}

// dial connects to the commit address, which it learns if need be.
func (v *villain) dial(ctx context.Context) net.Conn {
	if v.commit == "" && !v.open(ctx, true) {
		return nil
	}
	c, err := v.connect(ctx, v.commit)
	if err != nil {
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// octets sends what is not a start-up, or the beginning of one.
func (v *villain) octets(ctx context.Context) {
	for range 20 {
		c := v.dial(ctx)
		if c == nil {
			return
		}
		b := v.bytes(2000)
		if v.IntN(2) == 0 {
			b = append([]byte("MPA ID Req Frame"), b...)
		}
		_, _ = c.Write(b)
		c.Close()
	}
}

// half begins connections, many at a time, and leaves them.
func (v *villain) half(ctx context.Context) {
	var conns []net.Conn
	for range 30 {
		if c := v.dial(ctx); c != nil {
			_, _ = c.Write([]byte("MPA ID Req Frame")[:v.IntN(17)])
			conns = append(conns, c)
		}
	}
	for _, c := range conns {
		c.Close()
	}
}

// knock shows private data.
func (v *villain) knock(ctx context.Context, data []byte, h rdmap.Handler) *rdmap.Conn {
	nc := v.dial(ctx)
	if nc == nil {
		return nil
	}
	cfg := commitlog.Config(&rdmap.Config{Startup: rdmap.Startup{PrivateData: data}, Handler: h})
	c := rdmap.Client(nc, cfg)
	if err := c.Handshake(ctx); err != nil {
		c.Abort(err)
		return nil
	}
	return c
}

// token shows tokens that are none, or twice.
func (v *villain) token(ctx context.Context) {
	k := key{}
	copy(k[:], v.bytes(17))
	data := [][]byte{nil, rendezvous.PrivateData(rendezvous.Token(k)), rendezvous.PrivateData(rendezvous.Token(v.opened.Session)), rendezvous.PrivateData(rendezvous.Token(k))[:v.IntN(24)], v.bytes(400)}
	if c := v.opened.Commit; c != nil {
		data = append(data, rendezvous.PrivateData(c.Token), rendezvous.PrivateData(c.Token))
	}
	for _, d := range data {
		if c := v.knock(ctx, d, nil); c != nil {
			c.Abort(nil)
		}
	}
}

// garbage calls the procedures with arguments of which words are wrong.
func (v *villain) garbage(ctx context.Context) {
	s := v.secret
	for range 10 {
		args := [][]byte{
			v.bytes(100),
			push.Octets(&openArgs{Name: string(v.bytes(maxName + 10)), Secret: s, Native: true}),
			push.Octets(&openArgs{Name: string(v.bytes(maxName)), Instance: key{1}}),
			push.Octets(&appendArgs{Session: v.opened.Session, Seq: v.Uint64(), Records: [][]byte{v.bytes(99), nil}}),
			v.opened.Session[:],
			push.Octets(&releaseArgs{Name: fmt.Sprintf("%s-%d", v.name, v.lost), Secret: s, Seq: v.Uint64() >> v.IntN(64)}),
		}[v.IntN(6)]
		if len(args) >= 4 && v.IntN(2) == 0 {
			word := []uint32{0, 1, 1 << 31, 1<<32 - 1, uint32(len(args)), v.Uint32()}[v.IntN(6)]
			binary.BigEndian.PutUint32(args[v.IntN(len(args)/4)*4:], word)
		}
		_, _ = v.call(ctx, v.Uint32N(push.ProcCount+1), args)
	}
}

// steal names logs and sessions of others.
func (v *villain) steal(ctx context.Context) {
	for _, name := range v.victims {
		for _, s := range []push.Secret{{}, v.secret} {
			a := openArgs{Name: name, Secret: s, Instance: key{1}, Resume: v.IntN(2) == 0, Native: true}
			_, _ = v.call(ctx, procOpen, push.Octets(&a))
			_, _ = v.call(ctx, procRelease, push.Octets(&releaseArgs{Name: name, Secret: s, Seq: 1}))
		}
	}
	k := key{}
	copy(k[:], v.bytes(17))
	for _, proc := range []uint32{procClose, procStatus} {
		_, _ = v.call(ctx, proc, k[:])
	}
	_, _ = v.call(ctx, procAppend, push.Octets(&appendArgs{Session: k, Seq: 1, Records: [][]byte{[]byte("EVIL")}}))
}

// append appends by call with numbers and sizes that are wrong.
func (v *villain) append(ctx context.Context) {
	if !v.open(ctx, false) {
		return
	}
	next := v.opened.Answer.NextSeq
	for _, a := range []appendArgs{
		{Seq: next + 1, Records: [][]byte{{1}}},
		{Seq: 1<<64 - 1, Records: [][]byte{{1}, {2}}},
		{Seq: 0, Records: make([][]byte, maxRecords)},
		{Seq: next, Records: [][]byte{make([]byte, v.opened.Answer.Capacity)}},
		{Seq: next, Records: [][]byte{v.bytes(100), nil}},
		{Seq: next, Records: [][]byte{v.bytes(100), nil, {1}}},
	} {
		a.Session = v.opened.Session
		_, _ = v.call(ctx, procAppend, push.Octets(&a))
	}
	_, _ = v.call(ctx, procClose, v.opened.Session[:])
}

// resume opens its log again and again, as this instance and that.
func (v *villain) resume(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range 6 {
		a := openArgs{Name: fmt.Sprintf("%s-%d", v.name, v.lost), Secret: v.secret, Instance: key{byte(i % 2)}, Resume: i%3 == 0, Native: i%2 == 0, Capacity: v.Uint64()}
		wg.Go(func() { _, _ = v.call(ctx, procOpen, push.Octets(&a)) })
	}
	wg.Wait()
}

// native has a good session of its own do something.
func (v *villain) native(ctx context.Context, f func(ctx context.Context, c *rdmap.Conn, a *commitlog.Answer)) {
	if !v.open(ctx, true) || v.opened.Commit == nil {
		return
	}
	h := &listener{answers: make(chan *commitlog.Answer, 1)}
	c := v.knock(ctx, rendezvous.PrivateData(v.opened.Commit.Token), h)
	if c == nil {
		return
	}
	defer c.Abort(nil)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Send(ctx, nil); err != nil {
		return
	}
	go func() { _ = c.Serve() }()
	select {
	case a := <-h.answers:
		f(ctx, c, a)
	case <-c.Done():
	case <-ctx.Done():
	}
}

// listener hears the answer.
type listener struct{ answers chan *commitlog.Answer }

func (l *listener) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	if a, err := commitlog.ParseAnswer(m.Data); err == nil {
		select {
		case l.answers <- a:
		default:
		}
	}
}
func (l *listener) HandleClose(*rdmap.Conn, error) {}

// tail moves the tail to where no honest producer does: back, beyond, between records.
func (v *villain) tail(ctx context.Context, c *rdmap.Conn, a *commitlog.Answer) {
	for _, to := range []uint64{a.Tail + 64, a.Tail + 1, 0, a.Head - 64, a.Head + a.Capacity, a.Head + a.Capacity + 64, 1 << 63, 1<<64 - 1, v.Uint64()} {
		if v.IntN(2) == 0 {
			continue
		}
		var word [8]byte
		binary.BigEndian.PutUint64(word[:], to)
		if c.AtomicWrite(ctx, region.STag(a.TailSTag), 0, word) != nil {
			return
		}
		_ = c.Flush(ctx, region.STag(a.TailSTag), 0, 8, verbs.FlushPersistent)
	}
}

// outside writes where it has no right to. Each is the end of the connection.
func (v *villain) outside(ctx context.Context, c *rdmap.Conn, a *commitlog.Answer) {
	to := []struct {
		stag uint32
		off  uint64
	}{
		{a.RingSTag, a.Capacity - 1},
		{a.RingSTag, 1<<64 - 1},
		{a.RingSTag, 1 << 63},
		{a.TailSTag, 0},
		{a.HeadSTag, 0},
		{v.Uint32(), 0},
		{a.RingSTag ^ 1, 0},
		{a.RingSTag + 256, 0},
		{0, 0},
	}[v.IntN(9)]
	_ = c.Write(ctx, []byte("EVIL"), region.STag(to.stag), to.off)
	_ = c.Flush(ctx, region.STag(a.RingSTag), 0, 1, verbs.FlushPersistent)
}

// flood asks for many flushes and hashes, and does not wait.
func (v *villain) flood(ctx context.Context, c *rdmap.Conn, a *commitlog.Answer) {
	ring := region.STag(a.RingSTag)
	for range 300 {
		wr := verbs.WR{Op: verbs.OpFlushRequest, STag: ring, Len: uint32(a.Capacity), Flags: verbs.FlushPersistent}
		if v.IntN(2) == 0 {
			wr = verbs.WR{Op: verbs.OpVerifyRequest, STag: ring, TO: v.Uint64N(a.Capacity), Len: uint32(v.Uint64N(a.Capacity))}
		}
		if c.Post([]verbs.WR{wr}) != nil {
			return
		}
	}
	_ = c.Flush(ctx, ring, 0, 64, verbs.FlushPersistent)
}

// records fills the ring with octets that are no records, and makes them part of the log.
func (v *villain) records(ctx context.Context, c *rdmap.Conn, a *commitlog.Answer) {
	b := make([]byte, a.Capacity)
	copy(b, v.bytes(len(b)))
	if c.Write(ctx, b, region.STag(a.RingSTag), 0) != nil || c.Flush(ctx, region.STag(a.RingSTag), 0, uint32(len(b)), verbs.FlushPersistent) != nil {
		return
	}
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], a.Head+a.Capacity)
	_ = c.AtomicWrite(ctx, region.STag(a.TailSTag), 0, word)
}

// read reads what it may not, and says what nobody has asked.
func (v *villain) read(ctx context.Context, c *rdmap.Conn, a *commitlog.Answer) {
	sink := make([]byte, 64)
	if v.IntN(2) == 0 {
		_ = c.Read(ctx, sink, region.STag(a.HeadSTag), 0) // 8 octets are there
		return
	}
	if v.IntN(2) == 0 {
		_ = c.Send(ctx, v.bytes(3000))
	}
	_ = c.Read(ctx, sink, region.STag(a.RingSTag), 0)
}
