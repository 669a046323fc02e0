package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
)

// muzzle passes the connections of a client on to one of two servers, but not, once, what that answers.
type muzzle struct {
	net.Listener
	servers  []*server
	current  atomic.Int32
	swallow  atomic.Bool
	answered chan struct{} // gets an element when an answer was swallowed
	hold     sync.RWMutex  // locked: nobody gets a new connection
}

func newMuzzle(t *testing.T, servers ...*server) *muzzle {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	m := &muzzle{Listener: l, servers: servers, answered: make(chan struct{}, 1)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.pass(c)
		}
	}()
	return m
}

func (m *muzzle) now() *server { return m.servers[m.current.Load()] }

func (m *muzzle) pass(c net.Conn) {
	defer c.Close()
	m.hold.RLock()
	s, err := net.Dial("tcp", m.now().addr)
	m.hold.RUnlock()
	if err != nil {
		return
	}
	defer s.Close()
	go pump(s, c, nil)
	pump(c, s, func() bool {
		if !m.swallow.Load() {
			return true
		}
		select {
		case m.answered <- struct{}{}:
		default:
		}
		return false
	})
}

// pump copies octets for as long as may says yes, and then throws them away.
func pump(to, from net.Conn, may func() bool) {
	defer to.Close()
	for buf := make([]byte, 1<<16); ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if may != nil && !may() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// lose runs a call whose answer is lost, because its server is killed after it has run and before that arrives.
// Meanwhile another client does what between says, at the other server, where the call then comes again.
func (m *muzzle) lose(t *testing.T, call func() error, between func(c *nfsclient.Client) error) error {
	t.Helper()
	got := make(chan error, 1)
	m.swallow.Store(true)
	go func() { got <- call() }()
	select {
	case <-m.answered:
	case <-time.After(time.Minute):
		t.Fatal("no answer")
	}
	m.hold.Lock()
	dead := m.now()
	dead.kill()
	m.current.Store(1 - m.current.Load())
	m.swallow.Store(false)
	select {
	case <-m.answered:
	default:
	}
	if between != nil {
		noErr(t, between(dial(t, m.now())))
	}
	m.hold.Unlock()
	err := <-got
	dead.restart()
	return err
}

// TestAgain: a call whose server was killed before the answer arrived is sent again, to another server. It runs once, and
// is answered as if nothing had happened.
func TestAgain(t *testing.T) {
	uri := newVolume(t)
	m := newMuzzle(t, start(t, uri), start(t, uri))
	r, err := redial.New(&redial.Config{
		MinDelay: 10 * time.Millisecond, MaxDelay: 100 * time.Millisecond, Patience: time.Minute,
		Dial: func(ctx context.Context) (redial.Conn, error) {
			return transport.Dial(ctx, "tcp", m.Addr().String(), nil)
		},
	})
	noErr(t, err)
	defer r.Close()
	c, ctx := client(t, r), t.Context()
	root := c.Root()
	child := func(c *nfsclient.Client, name string) *nfsclient.Node {
		t.Helper()
		n, err := c.Child(ctx, c.Root(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	none := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := c.Child(ctx, root, name); !errors.Is(err, nfs3.ErrNoEnt) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	create := func(c *nfsclient.Client, name string) error {
		_, err := c.Create(ctx, c.Root(), name, 0o644, true)
		return err
	}
	mkdir := func(c *nfsclient.Client, name string) error {
		_, err := c.Mkdir(ctx, c.Root(), name, 0o750)
		return err
	}

	var f *nfsclient.Node
	for _, step := range []struct {
		name    string
		call    func() error
		between func(c *nfsclient.Client) error
		want    error
		check   func()
	}{
		{"CREATE", func() error { return create(c, "f") }, nil, nil, func() { f = child(c, "f") }},
		{"CREATE of what is there", func() error { return create(c, "f") }, nil, nfs3.ErrExist, nil},
		{"MKDIR", func() error { return mkdir(c, "d") }, nil, nil, func() { child(c, "d") }},
		{"MKDIR of what another has made meanwhile", func() error { return mkdir(c, "e") }, func(c *nfsclient.Client) error {
			return errors.Join(c.Rmdir(ctx, c.Root(), "e"), mkdir(c, "e"))
		}, nfs3.ErrExist, nil},
		{"SYMLINK", func() error { _, err := c.Symlink(ctx, root, "s", "f"); return err }, nil, nil, func() { child(c, "s") }},
		{"LINK", func() error { return c.Link(ctx, f, root, "g") }, nil, nil, func() {
			if n := child(c, "f").Attr.Nlink; n != 2 {
				t.Errorf("%d links", n)
			}
		}},
		{"LINK of what is there", func() error { return c.Link(ctx, f, root, "g") }, nil, nfs3.ErrExist, nil},
		{"RENAME", func() error { return c.Rename(ctx, root, "g", root, "h") }, nil, nil, func() { none("g"); child(c, "h") }},
		{"RENAME, and the name is another's", func() error { return c.Rename(ctx, root, "h", root, "i") }, func(c *nfsclient.Client) error {
			return create(c, "h")
		}, nil, func() {
			if child(c, "i").Attr.FileID != f.Attr.FileID {
				t.Error("the other's file was moved")
			}
		}},
		{"REMOVE", func() error { return c.Remove(ctx, root, "s") }, nil, nil, func() { none("s") }},
		{"REMOVE, and the name is another's", func() error { return c.Remove(ctx, root, "i") }, func(c *nfsclient.Client) error {
			return create(c, "i")
		}, nil, func() { child(c, "i") }},
		{"REMOVE of nothing", func() error { return c.Remove(ctx, root, "nothing") }, nil, nfs3.ErrNoEnt, nil},
		{"RMDIR", func() error { return c.Rmdir(ctx, root, "d") }, nil, nil, func() { none("d") }},
	} {
		if err := m.lose(t, step.call, step.between); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
		if step.check != nil {
			step.check()
		}
	}
	if n := r.Stats().Retransmits; n < 13 {
		t.Errorf("%d calls were sent again", n)
	}
}
