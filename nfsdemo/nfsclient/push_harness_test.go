package nfsclient_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
)

// staying is a listener that stays open when the server that has it ends.
type staying struct {
	net.Listener
	conns chan net.Conn
	over  chan struct{}
	once  *sync.Once
}

// keepListening accepts for servers that come one after the other.
func keepListening(t *testing.T) staying {
	t.Helper()
	l := staying{Listener: listen(t), conns: make(chan net.Conn)}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Listener.Accept()
			if err != nil {
				return
			}
			select {
			case l.conns <- c:
			case <-time.After(10 * time.Second): // nobody serves
				c.Close()
			case <-end:
				c.Close()
			}
		}
	})
	t.Cleanup(func() { close(end); l.Listener.Close(); wg.Wait() })
	return l
}

// next is the listener for the next server.
func (l staying) next() staying {
	l.over, l.once = make(chan struct{}), new(sync.Once)
	return l
}

func (l staying) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l staying) Close() error { l.once.Do(func() { close(l.over) }); return nil }

// badFiles fails the writes of records while fail is set.
type badFiles struct {
	*server.Server
	mu   sync.Mutex
	fail error
}

func (b *badFiles) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// pushWorld is a server with push-mode writes.
type pushWorld struct {
	t     *testing.T
	cfg   pushwrite.Config
	fs    backend.FS
	calls staying
	files *badFiles
	url   string
	stops []func()
}

func newPushWorld(t *testing.T, change func(*pushwrite.Config)) *pushWorld {
	t.Helper()
	w := &pushWorld{t: t, fs: mem.New(nil), calls: keepListening(t)}
	w.cfg = pushwrite.Config{Dir: t.TempDir(), RecallTime: time.Minute}
	w.cfg.Limits.Opens = 1e6
	if change != nil {
		change(&w.cfg)
	}
	w.url = "nfs+rdma://" + w.calls.Addr().String() + "/export"
	w.start()
	t.Cleanup(w.stop)
	return w
}

func (w *pushWorld) start() {
	w.t.Helper()
	commits := listen(w.t)
	cfg := w.cfg
	cfg.Addr = commits.Addr().String()
	pw, err := pushwrite.Open(&cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	h, err := server.New(&server.Config{
		Exports: []server.Export{{Path: "/export", FS: w.fs, Squash: server.SquashNone}}, Guard: pw,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.files = &badFiles{Server: h}
	if err := pw.Start(w.t.Context(), w.files); err != nil {
		w.t.Fatal(err)
	}
	ts := &transport.Server{Handler: h, Config: &transport.Config{Backward: transport.Backward{Credits: 8}}}
	var wg sync.WaitGroup
	wg.Go(func() { _ = pw.Serve(commits) })
	wg.Go(func() { _ = ts.Serve(w.calls.next()) })
	w.stops = append(w.stops, func() {
		ts.Close()
		if err := pw.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
		wg.Wait()
	})
}

func (w *pushWorld) stop() {
	for _, f := range w.stops {
		f()
	}
	w.stops = nil
}

// owner is the owner of a log.
type owner struct{ secret push.Secret }

// config returns the configuration of a client with the log of o.
func (o *owner) config(change func(*nfsclient.Config)) *nfsclient.Config {
	if o.secret == (push.Secret{}) {
		o.secret = push.NewSecret()
	}
	c := &nfsclient.Config{Reconnect: time.Minute, DialTimeout: time.Minute, Push: &nfsclient.PushConfig{ // a machine may stand still
		OpenTimeout: time.Minute,
		Log:         "log", Secret: o.secret,
		Capacity: 64 << 10, Record: 4096, InFlight: 4,
	}}
	if change != nil {
		change(c)
	}
	return c
}

func (w *pushWorld) client(o *owner, change func(*nfsclient.Config)) *nfsclient.Client {
	w.t.Helper()
	return mustDial(w.t, w.url, o.config(change))
}

// made returns a new file.
func made(t *testing.T, c *nfsclient.Client, name string) *nfsclient.Node {
	t.Helper()
	n, err := c.Create(t.Context(), c.Root(), name, 0o644, false)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// content reads a file.
func content(t *testing.T, c *nfsclient.Client, n *nfsclient.Node) []byte {
	t.Helper()
	if err := c.Refresh(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, n.Size())
	if _, err := c.ReadTo(t.Context(), n, nfsclient.Memory(got), nil); err != nil {
		t.Fatal(err)
	}
	return got
}

var errTest = errors.New("of the test")
