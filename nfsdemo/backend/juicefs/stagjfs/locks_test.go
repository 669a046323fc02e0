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

func (k *locker) status(s *server, proc lockd.Proc, args []byte) lockd.Status {
	k.Helper()
	d := xdr.NewDecoder(k.call(s, lockd.NLMProgram, lockd.Version4, uint32(proc), args))
	var res lockd.Res
	if err := lockd.Parse(&d, &res, lockd.Version4); err != nil {
		k.Fatal(err)
	}
	return res.Status
}

func (k *locker) lock(s *server, at uint64, reclaim bool) lockd.Status {
	k.Helper()
	a := lockd.LockArgs{Exclusive: true, Reclaim: reclaim, Lock: k.octet(at)}
	return k.status(s, lockd.ProcLock, lockd.Append(nil, &a, lockd.Version4))
}

func (k *locker) unlock(s *server, at uint64) lockd.Status {
	k.Helper()
	a := lockd.UnlockArgs{Lock: k.octet(at)}
	return k.status(s, lockd.ProcUnlock, lockd.Append(nil, &a, lockd.Version4))
}

func (k *locker) octet(at uint64) lockd.Lock {
	return lockd.Lock{Caller: []byte(k.name), File: k.file, Owner: []byte("owner"), ID: 1, Offset: at, Len: 1}
}

// restarted says that the client has started again.
func (k *locker) restarted(s *server, state uint32) {
	k.Helper()
	a := lockd.Notify{Name: []byte(k.name), State: state}
	k.call(s, lockd.NSMProgram, lockd.NSMVersion, lockd.ProcNotify, xdr.Encode(nil, &a))
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
	noErr(t, err)
	here, there := startLocks(t, uri), startLocks(t, uri)
	a, b := &locker{t, "a", file.FH}, &locker{t, "b", file.FH}
	const first, second = 0, 10 // octets
	for i, step := range []struct {
		who  string
		do   func(s *server) lockd.Status
		want lockd.Status
	}{
		{"a locks", func(s *server) lockd.Status { return a.lock(s, first, false) }, lockd.Granted},
		{"b wants it", func(s *server) lockd.Status { return b.lock(s, first, false) }, lockd.Denied},
		{"b says that it was his", func(s *server) lockd.Status { return b.lock(s, first, true) }, lockd.Denied},
		{"a reclaims", func(s *server) lockd.Status { return a.lock(s, first, true) }, lockd.Granted},
		{"a asks again", func(s *server) lockd.Status { return a.lock(s, first, false) }, lockd.Granted},
		{"b gives back what is not his", func(s *server) lockd.Status { return b.unlock(s, first) }, lockd.Granted},
		{"b wants it still", func(s *server) lockd.Status { return b.lock(s, first, false) }, lockd.Denied},
		{"b locks something else", func(s *server) lockd.Status { return b.lock(s, second, false) }, lockd.Granted},
		{"a starts again", func(s *server) lockd.Status { a.restarted(s, 3); return lockd.Granted }, lockd.Granted},
		{"a reclaims what it has lost", func(s *server) lockd.Status { return a.lock(s, first, true) }, lockd.Denied},
		{"b gets it", func(s *server) lockd.Status { return b.lock(s, first, false) }, lockd.Granted},
		{"a wants it", func(s *server) lockd.Status { return a.lock(s, first, false) }, lockd.Denied},
		{"b gives it back", func(s *server) lockd.Status { return b.unlock(s, first) }, lockd.Granted},
		{"a gets it", func(s *server) lockd.Status { return a.lock(s, first, false) }, lockd.Granted},
		{"a wants b's", func(s *server) lockd.Status { return a.lock(s, second, false) }, lockd.Denied},
	} {
		if got := step.do(here); got != step.want {
			t.Fatalf("step %d, %s: %v, want %v", i, step.who, got, step.want)
		}
		here.kill()
		here.restart()
		here, there = there, here
	}
}
