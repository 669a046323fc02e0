package sequences_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// mute swallows the first reply to REMOVE: the server ends before it can be sent.
type mute struct {
	rpc.Handler
	removed chan struct{}
	once    sync.Once
}

func (m *mute) NonIdempotent(_, _, _ uint32) bool { return false }
func (m *mute) MayBlock(_, _, _ uint32) bool      { return true }

func (m *mute) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	m.Handler.ServeRPC(ctx, req, resp)
	if req.Prog != nfs3.Program || nfs3.Proc(req.Proc) != nfs3.ProcRemove {
		return
	}
	m.once.Do(func() {
		close(m.removed)
		<-ctx.Done()
	})
}

// A server ends when it has removed a file and before it has said so; the next one answers the
// same call, which comes again, with the reply of the first time.
func TestOnceRestart(t *testing.T) {
	remove := proc(nfs3.Program, int(nfs3.ProcRemove))
	sequence(t, "once-restart", map[string]int{remove: 2, "connections": 2}, func(t *testing.T, to relay) {
		export, journal := t.TempDir(), t.TempDir()
		fsys, err := dir.New(export, nil)
		check(t, err)
		t.Cleanup(func() { check(t, fsys.Close()) })
		start := func() (addr string, m *mute, stop func()) {
			j, err := once.OpenDir(journal, nil)
			check(t, err)
			h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: fsys, Squash: server.SquashNone}}})
			check(t, err)
			first, err := once.New(t.Context(), j, h, nil)
			check(t, err)
			m = &mute{Handler: first, removed: make(chan struct{})}
			ts, calls := &transport.Server{Handler: m}, listen(t)
			served := make(chan struct{})
			go func() { defer close(served); _ = ts.Serve(calls) }()
			return to(calls.Addr().String()), m, func() { check(t, ts.Close()); <-served; check(t, j.Close(background)) }
		}
		addr, m, stop := start()
		caller, c := mounted(t, addr)
		root := c.Root()
		_, err = c.Create(t.Context(), root, "file", 0o644, true)
		check(t, err)
		var mu sync.Mutex
		at := addr
		rd, err := redial.New(&redial.Config{
			Dial: func(ctx context.Context) (redial.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				return transport.Dial(ctx, "tcp", at, nil)
			},
			MinDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond,
		})
		check(t, err)
		t.Cleanup(func() { rd.Close() })
		removed := make(chan error, 1)
		go func() { removed <- removeFile(t, rd, root.FH) }()
		<-m.removed
		mu.Lock() // nobody connects between the two servers
		stop()
		caller.Close()
		addr, m, stop = start()
		m.once.Do(func() {}) // this one speaks
		at = addr
		mu.Unlock()
		t.Cleanup(stop)
		check(t, <-removed)
	})
}

// removeFile calls REMOVE, which succeeds once only.
func removeFile(t *testing.T, c rpc.Caller, dir nfs3.FileHandle) error {
	args := nfs3.DirOpArgs{Dir: dir, Name: "file"}
	var reply rpc.Reply
	defer reply.Release()
	err := c.Do(t.Context(), &rpc.Call{
		Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcRemove), Cred: cred.Auth(),
		Args: args.Append(nil), MaxResults: nfs3.ProcRemove.MaxRes(), Repeatable: true,
	}, &reply)
	if err != nil {
		return err
	}
	var res nfs3.WccRes
	d := reader(reply.Results)
	if err := res.Parse(&d); err != nil {
		return err
	}
	if res.Status != nfs3.OK {
		return res.Status
	}
	return nil
}

func reader(b []byte) xdr.Decoder { return xdr.NewDecoder(b) }
