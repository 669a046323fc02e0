package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Files in a directory of --replies, and their size in octets.
const (
	repliesFile = "replies"
	callsFile   = "calls"
	repliesSize = 1 << 20
)

// repliesDir are the logs of --replies.
type repliesDir struct{ replies, calls *pmem.Memory }

func (a *app) addRepliesFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.client.replies, "replies", "",
		"let the server push its replies into logs in this local `directory`, made if it does not exist; a call counts as answered when its reply is there (see nfsdemo log replies)")
}

// openReplies opens the logs, and makes them if they do not exist.
func openReplies(dir string) (*repliesDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--replies %s: %w", dir, bare(err))
	}
	var d repliesDir
	for _, f := range []struct {
		name string
		mem  **pmem.Memory
	}{{repliesFile, &d.replies}, {callsFile, &d.calls}} {
		mem, err := openLog(filepath.Join(dir, f.name))
		if err != nil {
			d.close()
			return nil, fmt.Errorf("--replies %s: %w", dir, err)
		}
		*f.mem = mem
	}
	return &d, nil
}

// openLog opens a log, and makes it if it does not exist.
func openLog(path string) (*pmem.Memory, error) {
	mem, err := pmem.Open(pmem.File, path, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		return mem, err
	}
	// Under another name until it is complete: a crash leaves a whole log, or none.
	half := path + ".new"
	_ = os.Remove(half) // left by a crash
	if err := pmem.Create(half, repliesSize, nil); err != nil {
		return nil, err
	}
	if mem, err = pmem.Open(pmem.File, half, nil); err != nil {
		return nil, err
	}
	if err := errors.Join(replies.Create(mem, nil), mem.Close(), os.Rename(half, path), pmem.SyncDir(filepath.Dir(path))); err != nil {
		return nil, err
	}
	return pmem.Open(pmem.File, path, nil)
}

// close unlocks the files.
func (d *repliesDir) close() {
	if d == nil {
		return
	}
	for _, m := range []*pmem.Memory{d.replies, d.calls} {
		if m != nil {
			_ = m.Close() // everything that matters was flushed
		}
	}
}

// config opens the logs for a server.
func (s *session) openReplies(u *nfsclient.URL, cfg *nfsclient.Config) (*repliesDir, error) {
	if s.a.client.replies == "" {
		return nil, nil //nolint:nilnil // no logs are wanted
	}
	if u.Scheme != nfsclient.SchemeRDMA {
		return nil, usagef("--replies is for nfs+rdma URLs: replies are pushed by RDMA")
	}
	if len(s.conns) > 0 {
		return nil, usagef("--replies is for one server at a time")
	}
	d, err := openReplies(s.a.client.replies)
	if err != nil {
		return nil, err
	}
	cfg.Replies = &replies.Config{Memory: d.replies, Calls: d.calls}
	return d, nil
}

// tell reports whether replies are pushed and what an earlier run has left, and releases that from
// the logs.
func (a *app) tell(r *replies.Client) {
	if r == nil {
		return
	}
	if err := r.Offered(); errors.Is(err, replies.ErrNoProgram) {
		fmt.Fprintln(a.stderr, "nfsdemo: this server does not push replies, so they count as soon as they arrive; start it with --replies ADDRESS")
	} else if err != nil {
		fmt.Fprintf(a.stderr, "nfsdemo: replies are not pushed yet, so they count as soon as they arrive: %v\n", err)
	}
	answered, asked := r.Recovered(), r.Unanswered()
	for _, x := range answered {
		fmt.Fprintf(a.stderr, "nfsdemo: a call of an earlier run was answered: %s\n", replyText(x))
		r.Done(x.Seq)
	}
	for _, i := range asked {
		fmt.Fprintf(a.stderr, "nfsdemo: a call of an earlier run was not answered, and may have been done: %s, call %d.%08x\n",
			procText(i.Prog, i.Vers, i.Proc), i.Epoch, i.XID)
		r.Settle(i)
	}
}

// repliesService pushes replies into logs of clients. A nil *repliesService does nothing.
type repliesService struct {
	pusher *replies.Pusher
	l      net.Listener
}

// openRepliesService opens the listener for the connections of logs, and returns a handler that
// pushes the replies of h. Without an address it returns nil and h.
func openRepliesService(ctx context.Context, cfg *serviceConfig, h rpc.Handler) (*repliesService, rpc.Handler, error) {
	if cfg.replies == "" {
		return nil, h, nil
	}
	l, err := cfg.sockets.listen(ctx, "replies", cfg.replies)
	if err != nil {
		return nil, nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := &replies.Pusher{
		Handler: h, Addr: ":" + port, TLS: cfg.tls.config(), Logger: cfg.config.Logger,
		MaxQueued: queuedReplies, MaxClients: replyLogs(cfg.config),
		Choose: func(prog, _, proc uint32) bool { return prog == nfs3.Program && !nfs3.Proc(proc).Idempotent() },
	}
	return &repliesService{pusher: p, l: allowed(cfg.capture.TapListener(l), cfg.config.Limits.Allow)}, p, nil
}

// queuedReplies are the octets in flight to one log: some 200 replies of NFS that change something. Those of all logs
// take at most a quarter of --memory-limit, whatever their clients do not acknowledge.
const queuedReplies = 64 << 10

// replyLogs returns how many logs there may be, at most 1024.
func replyLogs(cfg *transport.Config) int {
	return int(max(min(cmp.Or(cfg.Limits.Memory, transport.DefaultMemory)/4/queuedReplies, 1024), 8))
}

// serve serves the connections of logs.
func (r *repliesService) serve(s *service) {
	if r == nil {
		return
	}
	s.wg.Go(func() {
		if err := r.pusher.Serve(r.l); !errors.Is(err, replies.ErrClosed) {
			s.errs <- err
		}
	})
}

// close ends everything.
func (r *repliesService) close() error {
	if r == nil {
		return nil
	}
	_ = r.l.Close() // it may be closed already
	return r.pusher.Close()
}

// addr returns the address for the connections of logs.
func (r *repliesService) addr() string {
	if r == nil {
		return ""
	}
	return addrOf(r.l)
}

// replyLine is the line of the port file about reply logs.
func (r *readyJSON) replyLine() string {
	if r.Reply == "" {
		return ""
	}
	return "\nREPLIES=" + r.Reply
}

// checkReplies refuses combinations of --replies with other flags.
func (cfg *serviceConfig) checkReplies() error {
	if cfg.replies == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(cfg.replies); err != nil {
		return usagef("--replies %q is not an address: write host:port, for example 127.0.0.1:0", cfg.replies)
	}
	if cfg.rdma == "" {
		return usagef("--replies needs --listen ADDRESS: replies are pushed by RDMA")
	}
	return nil
}
