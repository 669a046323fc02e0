package crash

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// deaf is a relay to the server whose client hears nothing anymore once effect is true: the
// server sends a reply after its effect, so exactly that reply is lost. It ends with the
// connection; later ones are whole.
type deaf struct {
	t      *testing.T
	port   string // a port file
	key    string // in it: of the port of the server
	effect func() bool
	lost   chan struct{} // closed when the reply is lost
	once   sync.Once
	wg     sync.WaitGroup
}

// listen starts the relay, which ends with the test.
func (d *deaf) listen() (net.Addr, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.relay(c) })
		}
	})
	d.t.Cleanup(func() {
		l.Close()
		d.wg.Wait()
	})
	return l.Addr(), nil
}

func (d *deaf) relay(c net.Conn) {
	defer c.Close()
	at, _, err := Addr(d.port).get(d.key)
	if err != nil {
		return // it is not there now
	}
	s, err := net.Dial("tcp", at)
	if err != nil {
		return
	}
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(s, c)
		s.Close()
	})
	d.down(c, s)
	c.Close()
	up.Wait()
}

// down is the way back.
func (d *deaf) down(c, s net.Conn) {
	first := false
	b := make([]byte, 64<<10)
	for {
		n, err := s.Read(b)
		if n > 0 && !first && d.effect() {
			d.once.Do(func() {
				first = true
				close(d.lost)
			})
		}
		if err != nil {
			return
		}
		if first {
			continue
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

// losing is a call whose reply is lost.
type losing struct {
	op     Op          // Path and To get the prefix of the worker
	wrong  nfs3.Status // what a second run is answered
	effect func(dir string) bool
}

func there(name string) func(string) bool {
	return func(prefix string) bool {
		_, err := os.Lstat(prefix + name)
		return err == nil
	}
}

func gone(name string) func(string) bool {
	there := there(name)
	return func(prefix string) bool { return !there(prefix) }
}

var losings = []losing{
	{Op{Kind: Mkdir, Path: "dir", Mode: 0o755}, nfs3.ErrExist, there("dir")},
	{Op{Kind: Guarded, Path: "guarded", Mode: 0o644}, nfs3.ErrExist, there("guarded")},
	{Op{Kind: Symlink, Path: "symlink", Target: "target"}, nfs3.ErrExist, there("symlink")},
	{Op{Kind: Mkfifo, Path: "fifo", Mode: 0o644}, nfs3.ErrExist, there("fifo")},
	{Op{Kind: Link, Path: "file", To: "link"}, nfs3.ErrExist, there("link")},
	{Op{Kind: Remove, Path: "file"}, nfs3.ErrNoEnt, gone("file")},
	{Op{Kind: Rmdir, Path: "empty"}, nfs3.ErrNoEnt, gone("empty")},
	{Op{Kind: Rename, Path: "file", To: "renamed"}, nfs3.ErrNoEnt, there("renamed")},
	{Op{Kind: Chmod, Path: "file", Mode: 0o600, Guard: true}, nfs3.ErrNotSync, func(prefix string) bool {
		fi, err := os.Stat(prefix + "file")
		return err == nil && fi.Mode().Perm() == 0o600
	}},
}

// TestReplyLost: a server carries out calls that must not run twice, their replies are lost on the way, and
// it is killed; what is sent again with the same XIDs after its restart is answered as it
// would have been, over RDMA and TCP. Without --intents each of them runs again, and says so: this
// test fails with -kill.serve none.
func TestReplyLost(t *testing.T) {
	for name, serve := range map[string]string{"intents": *killServe, "without": ""} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			k := &killer{t: t, dir: dir, role: "server", serve: strings.ReplaceAll(serve, "DIR", filepath.Join(dir, "kept"))}
			if serve == "none" {
				k.serve = ""
			}
			for _, d := range []string{"kept", "kept/push", "export"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() { k.server.end() })
			k.startServer()
			var lost, all sync.WaitGroup
			for i := range 2 * len(losings) {
				l := losings[i/2]
				want := nfs3.OK
				if name == "without" {
					want = l.wrong
				}
				lost.Add(1)
				all.Go(func() {
					got, err := k.lose(&l, uint16(i+1), i%2 == 0, sync.OnceFunc(lost.Done))
					if err != nil || got != want {
						t.Errorf("%s, over RDMA %v: %v %v, want %v", l.op.Kind, i%2 == 0, got, err, want)
					}
				})
			}
			lost.Wait()
			os.Remove(filepath.Join(dir, "port")) // nobody finds it
			k.server.end()
			k.startServer()
			all.Wait()
		})
	}
}

// lose makes a call as a worker of its own, says when the reply is lost, and returns the status that
// it is answered in the end.
func (k *killer) lose(l *losing, worker uint16, rdma bool, lost func()) (st nfs3.Status, err error) {
	defer lost() // in any case
	ctx := k.t.Context()
	prefix := filepath.Join(k.dir, "export", fmt.Sprintf("w%d.", worker))
	if err := os.WriteFile(prefix+"file", nil, 0o644); err != nil {
		return 0, err
	}
	if err := os.Mkdir(prefix+"empty", 0o755); err != nil {
		return 0, err
	}
	d := &deaf{t: k.t, port: filepath.Join(k.dir, "port"), key: "TCP", lost: make(chan struct{}), effect: func() bool { return l.effect(prefix) }}
	if rdma {
		d.key = "RDMA"
	}
	addr := filepath.Join(k.dir, fmt.Sprintf("addr%d", worker))
	_, text, err := Addr(d.port).get(d.key)
	if err != nil {
		return 0, err
	}
	at, err := d.listen()
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(addr, fmt.Appendf(nil, "%s\n%s=%s\n", strings.ReplaceAll(text, d.key+"=", "#"), d.key, at), 0o600); err != nil {
		return 0, err
	}
	c := NewStream(Addr(addr), worker)
	if rdma {
		if c, err = NewRDMA(Addr(addr), worker, worker); err != nil {
			return 0, err
		}
	}
	defer c.Close()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-d.lost:
			lost()
		case <-over:
		}
	}()
	return l.run(ctx, c, Addr(addr), filepath.Base(prefix))
}

// run makes the call, with the handles that it needs.
func (l *losing) run(ctx context.Context, c Caller, addr Addr, prefix string) (nfs3.Status, error) {
	export, err := addr.Export(ctx)
	if err != nil {
		return 0, err
	}
	dir, err := root(ctx, c, 1, export)
	if err != nil {
		return 0, err
	}
	look := Op{Kind: Look, Path: prefix + "file", Dir: dir}
	file, err := called(ctx, c, 2, &look)
	if err != nil {
		return 0, err
	}
	o := l.op
	o.Path, o.To, o.Dir, o.Into, o.File, o.Ctime = prefix+o.Path, prefix+o.To, dir, dir, file.Handle, file.Attr.Ctime
	r, err := called(ctx, c, 3, &o)
	if err != nil {
		return 0, err
	}
	return r.Status, nil
}

// called makes a call.
func called(ctx context.Context, c Caller, xid uint32, o *Op) (*Result, error) {
	m, err := o.call(0)
	if err != nil {
		return nil, err
	}
	raw, err := c.do(ctx, xid, nfs3.Program, m)
	if err != nil {
		return nil, err
	}
	return o.result(m.proc, raw)
}
