package sequences

import (
	"context"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stag-rdma/stag/conformance/decode"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/xdr"
)

// oneLog keeps one log in a crash model.
type oneLog struct {
	mem   region.Memory
	owner push.Owner
}

func (o *oneLog) Create(_ string, size int, owner push.Owner, format func(region.Memory) error) error {
	o.mem, o.owner = pmem.NewSim(size, nil), owner
	return format(o.mem)
}

func (o *oneLog) Open(string) (region.Memory, push.Owner, error) {
	if o.mem == nil {
		return nil, o.owner, fs.ErrNotExist
	}
	return o.mem, o.owner, nil
}
func (o *oneLog) Names() ([]string, error) { return nil, nil }

// consume releases the records of a log as they come.
func consume(ctx context.Context, l *push.Log) {
	for {
		r, err := l.Next(ctx)
		if err != nil || l.Release(r.Seq) != nil {
			return
		}
	}
}

// session opens a session on a new log of a server, all recorded.
func session(t *testing.T, to relay, best push.Rung) *push.Session {
	t.Helper()
	commits, calls := listen(t), listen(t)
	ps := &push.Server{Store: &oneLog{}, Consume: consume, Limits: push.Limits{Capacity: 4096}}
	ps.Addr = to(commits.Addr().String())
	ts := &transport.Server{Handler: ps}
	running(t, func() { check(t, ts.Close()); check(t, ps.Close(background)) },
		func() { _ = ps.Serve(commits) }, func() { _ = ts.Serve(calls) })
	c, err := transport.Dial(t.Context(), "tcp", to(calls.Addr().String()), nil)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	s, err := push.Dial(t.Context(), c, "journal", &push.Config{Best: best, Keep: func(push.Secret) error { return nil }})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close(background)) })
	return s
}

// appended appends n records, some in one group, on the rung that it has to be.
func appended(t *testing.T, s *push.Session, r push.Rung, n int) {
	t.Helper()
	if s.Rung() != r {
		t.Fatalf("rung %v, want %v", s.Rung(), r)
	}
	var group []*commitlog.Pending
	for i := range n {
		e, err := s.Begin(make([]byte, 100*i))
		check(t, err)
		if group = append(group, e); i%3 > 0 {
			continue
		}
		for _, e := range group {
			_, err := e.Wait(t.Context())
			check(t, err)
		}
		group = nil
	}
}

var pushOpen, pushClose, pushAppend = fmt.Sprintf("%d.1", push.Program), fmt.Sprintf("%d.2", push.Program), fmt.Sprintf("%d.3", push.Program)

// A session on a connection of its own, with more than the ring holds.
func TestNative(t *testing.T) {
	sequence(t, "push-native", map[string]int{
		pushOpen: 2, pushClose: 1, "connections": 2, decode.CommitAnswer.String(): 1, decode.CommitWrite.String(): 5, decode.CommitFlush.String(): 5, decode.CommitTail.String(): 5,
	}, func(t *testing.T, to relay) { appended(t, session(t, to, push.Native), push.Native, 13) })
}

// A session by calls.
func TestByCalls(t *testing.T) {
	sequence(t, "push-calls", map[string]int{pushOpen: 2, pushClose: 1, pushAppend: 5},
		func(t *testing.T, to relay) { appended(t, session(t, to, push.Append), push.Append, 13) })
}

// nfsFile is a file of an NFS server as a push.File.
type nfsFile struct {
	c    *nfsclient.Client
	n    *nfsclient.Node
	verf []nfs3.WriteVerf // since the last Commit
}

func (f *nfsFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return f.c.ReadAt(ctx, f.n, p, off)
}

func (f *nfsFile) WriteAt(ctx context.Context, p []byte, off int64) error {
	_, verf, err := f.c.WriteAt(ctx, f.n, p, off, nfs3.Unstable)
	f.verf = append(f.verf, verf)
	return err
}

func (f *nfsFile) Commit(ctx context.Context) (commitlog.Level, error) {
	verf, err := f.c.Commit(ctx, f.n)
	for _, v := range f.verf {
		if err == nil && v != verf {
			err = push.ErrRewrite
		}
	}
	f.verf = nil
	return commitlog.Persistent, err
}

// The last rung: WRITE and COMMIT to a file of a server without the program.
func TestInFile(t *testing.T) {
	sequence(t, "push-file", map[string]int{
		pushOpen: 1, fmt.Sprintf("%d.%d", nfs3.Program, nfs3.ProcWrite): 5, fmt.Sprintf("%d.%d", nfs3.Program, nfs3.ProcCommit): 5,
	}, func(t *testing.T, to relay) {
		h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: mem.New(nil), Squash: server.SquashNone}}})
		check(t, err)
		ts, calls := &transport.Server{Handler: h}, listen(t)
		running(t, func() { check(t, ts.Close()) }, func() { _ = ts.Serve(calls) })
		caller, c := mounted(t, to(calls.Addr().String()))
		n, err := c.Create(t.Context(), c.Root(), "journal", 0o600, true)
		check(t, err)
		s, err := push.Dial(t.Context(), caller, "journal", &push.Config{
			File: &nfsFile{c: c, n: n}, Keep: func(push.Secret) error { return nil },
		})
		check(t, err)
		t.Cleanup(func() { check(t, s.Close(background)) })
		appended(t, s, push.InFile, 7)
	})
}

// cred is who all clients are, on every machine.
var cred = xdr.SysCred{MachineName: "client"}

// mounted is a client of /export at addr, and its caller.
func mounted(t *testing.T, addr string) (transport.Caller, *nfsclient.Client) {
	t.Helper()
	caller, err := transport.Dial(t.Context(), "tcp", addr, nil)
	check(t, err)
	t.Cleanup(func() { caller.Close() })
	root, err := nfsclient.NewMounter(caller, &cred).Mount(t.Context(), "/export")
	check(t, err)
	c, err := nfsclient.New(t.Context(), caller, root, "/export", &nfsclient.Config{Cred: &cred})
	check(t, err)
	return caller, c
}
