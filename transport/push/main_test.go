package push_test

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestMain fails the package if a test leaks a goroutine.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		runChild(dir)
	}
	_ = flag.Set("test.parallel", "8") // those that say so wait more than they work
	rdmaptest.Main(m)
}

// memStore keeps logs in crash models.
type memStore struct {
	mu   sync.Mutex
	logs map[string]region.Memory
	from map[string]push.Origin
	wrap func(size int) region.Memory // makes new logs; nil: crash models
}

func newMemStore() *memStore {
	return &memStore{logs: make(map[string]region.Memory), from: make(map[string]push.Origin)}
}

func (m *memStore) Create(name string, size int, from push.Origin, format func(region.Memory) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logs[name] != nil {
		return fs.ErrExist
	}
	var mem region.Memory
	if m.wrap != nil {
		mem = m.wrap(size)
	} else {
		mem = pmemtest.NewSim(size, nil)
	}
	if err := format(mem); err != nil {
		return err
	}
	m.logs[name], m.from[name] = mem, from
	return nil
}

func (m *memStore) Open(name string) (region.Memory, push.Origin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mem := m.logs[name]
	if mem == nil {
		return nil, push.Origin{}, fs.ErrNotExist
	}
	return mem, m.from[name], nil
}

func (m *memStore) Tidy() (int, error) { return 0, nil }

func (m *memStore) Names() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.logs)), nil
}

// crashed returns a store that holds what is sure to have survived.
func (m *memStore) crashed() *memStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := newMemStore()
	for name, mem := range m.logs {
		n.logs[name], n.from[name] = pmemtest.OpenSim(mem.(*pmemtest.Sim).Told().Durable(), nil), m.from[name]
	}
	return n
}

// faultyStore makes logs whose flushes fail or hang as f says.
func faultyStore() (m *memStore, f *pmemtest.Faults) {
	m, f = newMemStore(), pmemtest.NewFaults()
	m.wrap = func(size int) region.Memory { return pmemtest.NewSim(size, &pmemtest.SimOptions{Hook: f.Hook()}) }
	return m, f
}

// world is a server with its listeners.
type world struct {
	t    *testing.T
	ps   *push.Server
	rpc  string // address
	done []func()
	// Addresses that are not recorded, whatever comes: of calls and of commit connections.
	rawRPC, rawCommit string
}

// start makes a server of ps, with a commit listener unless it has an Addr. "-" means none.
func start(t *testing.T, ps *push.Server) *world {
	t.Helper()
	w := &world{t: t, ps: ps}
	if ps.Store == nil {
		ps.Store = newMemStore()
	}
	switch ps.Addr {
	case "-":
		ps.Addr = ""
	case "":
		l := w.listen()
		w.rawCommit = l.Addr().String()
		ps.Addr = recorded(t, w.rawCommit)
		w.serve(func() { _ = ps.Serve(l) })
	}
	noErr(t, ps.Load())
	l := w.listen()
	ts := &transport.Server{Handler: ps, Config: &transport.Config{Backward: transport.Backward{Credits: 2}}}
	w.rawRPC = l.Addr().String()
	w.rpc = recorded(t, w.rawRPC)
	w.serve(func() { _ = ts.Serve(l) })
	t.Cleanup(w.stop)
	w.done = append(w.done, func() { ts.Close() })
	return w
}

func (w *world) listen() net.Listener {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) serve(f func()) {
	over := make(chan struct{})
	go func() { f(); close(over) }()
	w.done = append(w.done, func() { <-over })
}

// stop ends the server, as often as it is called.
func (w *world) stop() {
	done := w.done
	w.done = nil
	if done == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.ps.Close(ctx); err != nil {
		w.t.Error("close:", err)
	}
	for i := range done {
		done[len(done)-1-i]()
	}
}

// caller makes a redial.Caller to the RPC server that addr tells.
func redialer(t *testing.T, addr func() string) *redial.Caller {
	t.Helper()
	r, err := redial.New(&redial.Config{
		Dial: func(ctx context.Context) (redial.Conn, error) {
			return transport.Dial(ctx, "tcp", addr(), nil)
		},
		MinDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func (w *world) caller() *redial.Caller {
	return redialer(w.t, func() string { return w.rpc })
}

// dial opens a session, which ends with the test.
func (w *world) dial(name string, cfg *push.Config) *push.Session {
	w.t.Helper()
	s, err := w.tryDial(name, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) tryDial(name string, cfg *push.Config) (*push.Session, error) {
	w.t.Helper()
	return w.dialBy(w.caller(), name, cfg)
}

func (w *world) dialBy(caller rpc.Caller, name string, cfg *push.Config) (*push.Session, error) {
	w.t.Helper()
	var c push.Config
	if cfg != nil {
		c = *cfg
	}
	if c.Secret == (push.Secret{}) {
		c.Secret = push.NewSecret()
	}
	s, err := push.Dial(w.t.Context(), caller, name, c.Times(15*time.Second, time.Millisecond, 10*time.Millisecond))
	if err == nil {
		w.t.Cleanup(func() { _ = s.Close(context.Background()) })
	}
	return s, err
}

// appended appends records one by one, and wants the numbers from seq on.
func appended(t *testing.T, s *push.Session, level commitlog.Level, seq uint64, records ...string) {
	t.Helper()
	for i, r := range records {
		res, err := s.Append(t.Context(), []byte(r))
		if err != nil || res.Seq != seq+uint64(i) || res.Level != level {
			t.Fatalf("append %q: %+v %v, want number %d, %v", r, res, err, seq+uint64(i), level)
		}
	}
}

// take wants records, from number seq on.
func (w *world) take(name string, seq uint64, want ...string) *push.Log {
	w.t.Helper()
	l := w.ps.Log(name)
	for i, p := range want {
		r, err := l.Next(w.t.Context())
		if err != nil || r.Seq != seq+uint64(i) || string(r.Payload) != p {
			w.t.Fatalf("record %+v %v, want %d %q", r, err, seq+uint64(i), p)
		}
	}
	if r, err := l.TryNext(); r != nil || err != nil {
		w.t.Fatalf("one more: %+v %v", r, err)
	}
	return l
}

// is fails unless err is the status.
func is(t *testing.T, err error, st push.Status) {
	t.Helper()
	if !errors.Is(err, st) {
		t.Fatalf("%v, want %v", err, st)
	}
}

// recorded returns an address behind which is addr, and what is said to it is recorded for
// the judge, if anything is (make judged).
func recorded(t testing.TB, addr string) string {
	t.Helper()
	return rdmaptest.Recorded(t, "push.", addr)
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
