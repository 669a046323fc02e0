package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juicedata/juicefs/pkg/utils"
	"github.com/sirupsen/logrus"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/internal/nlm"
	"github.com/stag-rdma/stag/nfsdemo/internal/nsm"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	nfs "github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// asLocks makes this test program a lock manager of a volume, without rpcbind, of which a machine has only one: "URI FILE",
// the file for its port. Its state is beside it.
const asLocks = "STAGJFS_TEST_LOCKS"

func serveLocks(what string) error {
	utils.SetLogLevel(logrus.ErrorLevel)
	uri, file, _ := strings.Cut(what, " ")
	v, err := juicefs.Open(context.Background(), uri, nil)
	if err != nil {
		return err
	}
	fsys, err := v.FS("/")
	if err != nil {
		return err
	}
	h, err := nfs.New(&nfs.Config{Exports: []nfs.Export{{Path: "/", FS: fsys}}})
	if err != nil {
		return err
	}
	locks, err := lockd.New(&lockd.Config{Files: h, Shared: []backend.Locker{fsys}, File: file + ".locks"})
	if err != nil {
		return err
	}
	for _, p := range locks.Programs() {
		h.Add(p)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", []byte("RDMA="+l.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	return (&transport.Server{Handler: h}).ServeStream(l)
}

// locker is a client of lock managers. All of them see the same address.
type locker struct {
	*testing.T
	name string
	file nfs3.FileHandle
}

func (k *locker) call(s *server, prog, vers, proc uint32, args []byte) []byte {
	k.Helper()
	c, err := transport.DialStream(k.Context(), "tcp", s.addr, nil)
	if err != nil {
		k.Fatal(err)
	}
	defer c.Close()
	var reply rpc.Reply
	defer reply.Release()
	cred := xdr.SysCred{MachineName: k.name}
	if err := c.Do(k.Context(), &rpc.Call{Prog: prog, Vers: vers, Proc: proc, Cred: cred.Auth(), Args: args, MaxResults: 4096}, &reply); err != nil {
		k.Fatal(err)
	}
	if err := reply.Header.Err(); err != nil {
		k.Fatal(err)
	}
	return append([]byte(nil), reply.Results...)
}

func (k *locker) status(s *server, proc nlm.Proc, args []byte) nlm.Status {
	k.Helper()
	d := xdr.NewDecoder(k.call(s, nlm.Program, nlm.Version4, uint32(proc), args))
	var res nlm.Res
	if err := res.Parse(&d, nlm.Version4); err != nil {
		k.Fatal(err)
	}
	return res.Status
}

func (k *locker) lock(s *server, at uint64, reclaim bool) nlm.Status {
	k.Helper()
	a := nlm.LockArgs{Exclusive: true, Reclaim: reclaim, Lock: k.octet(at)}
	return k.status(s, nlm.ProcLock, a.Append(nil, nlm.Version4))
}

func (k *locker) unlock(s *server, at uint64) nlm.Status {
	k.Helper()
	a := nlm.UnlockArgs{Lock: k.octet(at)}
	return k.status(s, nlm.ProcUnlock, a.Append(nil, nlm.Version4))
}

func (k *locker) octet(at uint64) nlm.Lock {
	return nlm.Lock{Caller: []byte(k.name), File: k.file, Owner: []byte("owner"), ID: 1, Offset: at, Len: 1}
}

// restarted says that the client has started again.
func (k *locker) restarted(s *server, state uint32) {
	k.Helper()
	a := nsm.Notify{Name: []byte(k.name), State: state}
	k.call(s, nsm.Program, nsm.Version, nsm.ProcNotify, a.Append(nil))
}

// startLocks starts a lock manager.
func startLocks(t *testing.T, uri string) *server {
	t.Helper()
	s := &server{t: t, file: filepath.Join(t.TempDir(), "port")}
	s.env = asLocks + "=" + uri + " " + s.file
	s.restart()
	t.Cleanup(s.kill)
	return s
}

// TestLocks kills one of two lock managers (kill -9) after each step, and the other one goes on.
func TestLocks(t *testing.T) {
	uri := newVolume(t)
	c := dial(t, start(t, uri))
	file, err := c.Create(t.Context(), c.Root(), "f", 0o644, false)
	if err != nil {
		t.Fatal(err)
	}
	here, there := startLocks(t, uri), startLocks(t, uri)
	a, b := &locker{t, "a", file.FH}, &locker{t, "b", file.FH}
	const first, second = 0, 10 // octets
	for i, step := range []struct {
		who  string
		do   func(s *server) nlm.Status
		want nlm.Status
	}{
		{"a locks", func(s *server) nlm.Status { return a.lock(s, first, false) }, nlm.Granted},
		{"b wants it", func(s *server) nlm.Status { return b.lock(s, first, false) }, nlm.Denied},
		{"b says that it was his", func(s *server) nlm.Status { return b.lock(s, first, true) }, nlm.Denied},
		{"a reclaims", func(s *server) nlm.Status { return a.lock(s, first, true) }, nlm.Granted},
		{"a asks again", func(s *server) nlm.Status { return a.lock(s, first, false) }, nlm.Granted},
		{"b gives back what is not his", func(s *server) nlm.Status { return b.unlock(s, first) }, nlm.Granted},
		{"b wants it still", func(s *server) nlm.Status { return b.lock(s, first, false) }, nlm.Denied},
		{"b locks something else", func(s *server) nlm.Status { return b.lock(s, second, false) }, nlm.Granted},
		{"a starts again", func(s *server) nlm.Status { a.restarted(s, 3); return nlm.Granted }, nlm.Granted},
		{"a reclaims what it has lost", func(s *server) nlm.Status { return a.lock(s, first, true) }, nlm.Denied},
		{"b gets it", func(s *server) nlm.Status { return b.lock(s, first, false) }, nlm.Granted},
		{"a wants it", func(s *server) nlm.Status { return a.lock(s, first, false) }, nlm.Denied},
		{"b gives it back", func(s *server) nlm.Status { return b.unlock(s, first) }, nlm.Granted},
		{"a gets it", func(s *server) nlm.Status { return a.lock(s, first, false) }, nlm.Granted},
		{"a wants b's", func(s *server) nlm.Status { return a.lock(s, second, false) }, nlm.Denied},
	} {
		if got := step.do(here); got != step.want {
			t.Fatalf("step %d, %s: %v, want %v", i, step.who, got, step.want)
		}
		here.kill()
		here.restart()
		here, there = there, here
	}
}
