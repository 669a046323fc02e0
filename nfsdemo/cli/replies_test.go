package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestReplies: changes with --replies are noted and answered into the logs, and leave nothing
// behind; what a crash leaves, log replies shows, and the next run tells and strikes out.
func TestReplies(t *testing.T) {
	serve := func(replies string) (url string) {
		t.Helper()
		s := started(t, &serviceConfig{
			exports: one(t.TempDir()), rdma: "127.0.0.1:0", replies: replies, config: new(transport.Config),
		})
		return "nfs+rdma://" + addrOf(s.rdma) + s.path
	}
	url, dir := serve("127.0.0.1:0"), filepath.Join(t.TempDir(), "logs")
	run := func(args ...string) result {
		t.Helper()
		r := command(t.Context(), "", args...)
		if r.status != 0 {
			t.Fatalf("%v: %d, %s", args, r.status, r.stderr)
		}
		return r
	}
	run("mkdir", "--replies", dir, url+"/a", url+"/b")
	r := run("mv", "--replies", dir, url+"/a", url+"/c")
	if r.stderr != "" {
		t.Errorf("after a clean run: %s", r.stderr)
	}
	if n := strings.Count(run("log", "replies", dir).stdout, "\n"); n != 1 {
		t.Errorf("%d lines of a clean log", n)
	}
	if n := pushedReplies(t, dir); n < 3 {
		t.Errorf("%d replies were pushed", n)
	}
	crashed := crash(t, dir)
	out := run("log", "replies", crashed).stdout
	if !strings.Contains(out, "00000007  RENAME    NFS3ERR_NOENT") || !strings.Contains(out, "MKDIR     not answered") {
		t.Errorf("log replies:\n%s", out)
	}
	out = run("log", "replies", "--json", crashed).stdout
	if !strings.Contains(out, `"name":"RENAME"`) || !strings.Contains(out, `"answered":false`) {
		t.Errorf("log replies --json:\n%s", out)
	}
	r = run("rm", "-r", "--replies", crashed, url+"/c")
	if !strings.Contains(r.stderr, "was answered: RENAME") || !strings.Contains(r.stderr, "was not answered, and may have been done: MKDIR") {
		t.Errorf("the run after a crash printed %s", r.stderr)
	}
	if r = run("mkdir", "--replies", crashed, url+"/d"); r.stderr != "" {
		t.Errorf("the run after that printed %s", r.stderr)
	}
	if r = run("mkdir", "--replies", dir, serve("")+"/a"); !strings.Contains(r.stderr, "this server does not push replies") {
		t.Errorf("without pushed replies it printed %q", r.stderr)
	}
	for _, wrong := range []struct {
		want string
		args []string
	}{
		{"no reply logs here", []string{"log", "replies", t.TempDir()}},
		{"--replies is for nfs+rdma", []string{"mkdir", "--replies", dir, "nfs://127.0.0.1/export/x"}},
		{"not an address", []string{"serve", "--export", ".", "--replies", "here"}},
		{"--replies", []string{"mkdir", "--replies", "/dev/null/logs", url + "/x"}},
	} {
		if r := command(t.Context(), "", wrong.args...); r.status == 0 || !strings.Contains(r.stderr, wrong.want) {
			t.Errorf("%v: %d, %s", wrong.args, r.status, r.stderr)
		}
	}
}

// pushedReplies is how many replies the log of a directory has ever had.
func pushedReplies(t *testing.T, dir string) int {
	t.Helper()
	f := must(os.Open(filepath.Join(dir, repliesFile)))(t)
	defer f.Close()
	info := must(commitlog.Inspect(f, repliesSize, nil))(t)
	return int(info.NextSeq) - 1
}

// crash makes logs in which there is a reply and a call without one.
func crash(t *testing.T, dir string) string {
	t.Helper()
	live, dead := filepath.Join(filepath.Dir(dir), "live"), filepath.Join(filepath.Dir(dir), "dead")
	d := must(openReplies(live))(t)
	defer d.close()
	appendReply(t, d)
	silent := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := replies.Open(&replies.Config{Memory: d.replies, Calls: d.calls, Redial: redial.Config{
		Dial: func(ctx context.Context) (redial.Conn, error) {
			return transport.Dial(ctx, "tcp", silent.Addr().String(), nil)
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error)
	go func() {
		over <- c.Do(ctx, &rpc.Call{Prog: nfs3.Program, Vers: 3, Proc: uint32(nfs3.ProcMkdir)}, new(rpc.Reply))
	}()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		_ = os.RemoveAll(dead)
		noErr(t, os.CopyFS(dead, os.DirFS(live)))
		if st, err := inspectReplies(dead); err == nil && len(st.Unanswered) == 1 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("no note of the call")
		}
	}
	cancel()
	if err := errors.Join(<-over, c.Close()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	return dead
}

// appendReply does what a server does.
func appendReply(t *testing.T, d *repliesDir) {
	t.Helper()
	l := must(commitlog.Open(d.replies))(t)
	p := commitlog.NewProducer(nil)
	noErr(t, l.Local(t.Context(), p))
	var b []byte
	for _, v := range []uint32{1, nfs3.Program, 3, uint32(nfs3.ProcRename)} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, make([]byte, 32)...)
	b = binary.BigEndian.AppendUint32(b, 7) // the RDMA header begins with the XID
	b = append(b, make([]byte, 24)...)
	b = xdr.AppendReply(b, &xdr.ReplyHeader{XID: 7})
	must(p.Append(t.Context(), xdr.AppendUint32(b, uint32(nfs3.ErrNoEnt))))(t)
	p.Close()
	noErr(t, l.Close(t.Context()))
}

// TestReplyLogsFollowMemory: there are as many logs as --memory-limit has room for, and one host has an eighth of them.
func TestReplyLogsFollowMemory(t *testing.T) {
	cfg := &transport.Config{Limits: transport.Limits{Memory: 4 << 20}} // 16 logs
	s := started(t, &serviceConfig{exports: one(t.TempDir()), rdma: "127.0.0.1:0", replies: "127.0.0.1:0", config: cfg})
	c := must(transport.Dial(t.Context(), "tcp", addrOf(s.rdma), nil))(t)
	defer c.Close()
	for i, want := range []uint32{1, 1, 2} { // to connect, to connect, busy
		var reply rpc.Reply
		args := xdr.AppendBool(xdr.AppendUint32(append(make([]byte, 15), byte(i)), 1), true)
		if err := c.Do(t.Context(), &rpc.Call{Prog: replies.Program, Vers: replies.Version, Proc: 1, Args: args, MaxResults: 400}, &reply); err != nil {
			t.Fatal(err)
		}
		if d := xdr.NewDecoder(reply.Results); d.Uint32() != want {
			t.Errorf("offer %d is answered otherwise than with %d", i, want)
		}
		reply.Release()
	}
}
