package sequences_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// pushServer serves push-mode writes, and returns its URL; recall is the time a client has.
func pushServer(t *testing.T, to relay, recall time.Duration) *nfsclient.URL {
	t.Helper()
	commits, calls := listen(t), listen(t)
	pw, err := pushwrite.Open(&pushwrite.Config{Dir: t.TempDir(), Store: &oneLog{}, Addr: to(commits.Addr().String()), RecallTime: recall})
	check(t, err)
	h, err := server.New(&server.Config{
		Exports: []server.Export{{Path: "/export", FS: mem.New(nil), Squash: server.SquashNone}}, Guard: pw,
	})
	check(t, err)
	check(t, pw.Start(t.Context(), h))
	ts := &transport.Server{Handler: h, Config: &transport.Config{Backward: transport.Backward{Credits: 8}}}
	running(t, func() { check(t, ts.Close()); check(t, pw.Close(background)) },
		func() { _ = pw.Serve(commits) }, func() { _ = ts.Serve(calls) })
	u, err := nfsclient.ParseURL("nfs+rdma://" + to(calls.Addr().String()) + "/export")
	check(t, err)
	return u
}

// dialed is a client of u.
func dialed(t *testing.T, u *nfsclient.URL, cfg nfsclient.Config) *nfsclient.Client {
	t.Helper()
	cfg.Cred = &cred
	c, err := nfsclient.Dial(t.Context(), u, &cfg)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func keeping() nfsclient.Config {
	return nfsclient.Config{Push: &nfsclient.PushConfig{Log: "client", Capacity: 64 << 10, Secret: push.NewSecret()}}
}

var recallProc = fmt.Sprintf("%d.%d", pushfile.CallbackProgram, pushfile.ProcRecall)

func proc(prog uint32, n int) string { return fmt.Sprintf("%d.%d", prog, n) }

// A file is written by push; a plain client reads it, which drains it, and then cuts it, which
// recalls the lease.
func TestWriteRecalled(t *testing.T) {
	sequence(t, "write-recall", map[string]int{
		proc(pushfile.Program, pushfile.ProcOpen): 1, recallProc: 1, decode.CommitWrite.String(): 2, decode.CommitTail.String(): 2,
		proc(nfs3.Program, int(nfs3.ProcRead)): 1, proc(nfs3.Program, int(nfs3.ProcSetAttr)): 1,
	}, func(t *testing.T, to relay) {
		u := pushServer(t, to, time.Minute)
		pushing, plain := dialed(t, u, keeping()), dialed(t, u, nfsclient.Config{})
		n, err := pushing.Create(t.Context(), pushing.Root(), "file", 0o644, true)
		check(t, err)
		f, err := pushing.OpenPush(t.Context(), n, 0)
		check(t, err)
		data := bytes.Repeat([]byte("push"), 250)
		_, _, err = f.WriteAt(t.Context(), data, 0)
		check(t, err)
		_, _, err = f.WriteAt(t.Context(), data, int64(len(data)))
		check(t, err)
		got := make([]byte, 2*len(data))
		if _, err := plain.ReadAt(t.Context(), n, got, 0); err != nil || !bytes.Equal(got, bytes.Repeat(data, 2)) {
			t.Errorf("read: %v", err)
		}
		check(t, plain.SetAttr(t.Context(), n, &nfs3.SetAttr{SetSize: true, Size: 4}))
		_ = f.Close(t.Context()) // it was recalled
	})
}

// stubborn answers a recall with the promise of a RETURN that never comes.
type stubborn struct{}

func (stubborn) ServeRPC(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
	resp.Results = append(resp.Results, 0, 0, 0, byte(pushfile.StatusBusy))
}

// A client that does not return its lease is fenced; what it had acknowledged is in the file.
func TestWriteFenced(t *testing.T) {
	sequence(t, "write-fence", map[string]int{
		proc(pushfile.Program, pushfile.ProcOpen): 1, recallProc: 1, decode.CommitTail.String(): 1, proc(nfs3.Program, int(nfs3.ProcWrite)): 1,
	}, func(t *testing.T, to relay) {
		u := pushServer(t, to, 20*time.Millisecond)
		plain := dialed(t, u, nfsclient.Config{})
		n, err := plain.Create(t.Context(), plain.Root(), "file", 0o644, true)
		check(t, err)
		caller, err := transport.Dial(t.Context(), "tcp", u.Addr(), &transport.Config{Backward: transport.Backward{Credits: 8, Handler: stubborn{}}})
		check(t, err)
		t.Cleanup(func() { caller.Close() })
		auth := cred.Auth()
		s, err := push.Dial(t.Context(), caller, "stubborn", &push.Config{Cred: auth, Secret: push.NewSecret()})
		check(t, err)
		t.Cleanup(func() { _ = s.Close(background) }) // it was fenced
		a := pushfile.OpenArgs{Session: pushfile.Session(s.ID()), File: n.FH}
		var reply rpc.Reply
		check(t, caller.Do(t.Context(), &rpc.Call{
			Prog: pushfile.Program, Vers: pushfile.Version, Proc: pushfile.ProcOpen, Cred: auth, Args: a.Append(nil), MaxResults: 64,
		}, &reply))
		var opened pushfile.OpenRes
		d := xdr.NewDecoder(reply.Results)
		opened.Parse(&d)
		reply.Release()
		r := pushfile.Record{Lease: opened.Lease, Data: []byte("acknowledged")}
		_, err = s.Append(t.Context(), r.Append(nil))
		check(t, err)
		_, _, err = plain.WriteAt(t.Context(), n, []byte("A"), 0, nfs3.FileSync)
		check(t, err)
		got := make([]byte, 12)
		if _, err := plain.ReadAt(t.Context(), n, got, 0); err != nil || string(got) != "Acknowledged" {
			t.Errorf("%q %v", got, err)
		}
	})
}
