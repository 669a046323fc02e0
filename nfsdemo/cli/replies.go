package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/replies"
)

// Files of a directory of --replies, and their size, octets.
const (
	repliesFile = "replies"
	callsFile   = "calls"
	repliesSize = 1 << 20
)

// repliesDir are the logs of --replies.
type repliesDir struct{ replies, calls *pmem.Memory }

func (a *app) addRepliesFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.client.replies, "replies", "",
		"let the server push its replies into logs in this `directory` of yours, made if it is not there; nothing counts as answered before (see nfsdemo log replies)")
	cmd.Flags().BoolVar(&a.client.immediate, "replies-immediate", false,
		"with --replies: let 8 octets of Immediate Data stand for a reply that is in the log, if the server has this too")
}

// openReplies opens the logs, and makes them if there are none.
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

// openLog opens a log, and makes one if there is none.
func openLog(path string) (*pmem.Memory, error) {
	mem, err := pmem.Open(pmem.File, path, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		return mem, err
	}
	// Under another name until it is one: a crash leaves a log, or none.
	half := path + ".new"
	_ = os.Remove(half) // of a crash
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

// close gives the files back.
func (d *repliesDir) close() {
	if d == nil {
		return
	}
	for _, m := range []*pmem.Memory{d.replies, d.calls} {
		if m != nil {
			_ = m.Close() // what counts was flushed
		}
	}
}

// config opens the logs for a server.
func (s *session) openReplies(u *nfsclient.URL, cfg *nfsclient.Config) (*repliesDir, error) {
	if s.a.client.replies == "" {
		if s.a.client.immediate {
			return nil, usagef("--replies-immediate is for --replies DIR: give both")
		}
		return nil, nil //nolint:nilnil // none are wanted
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
	if s.a.client.immediate {
		rpc := *cfg.Transport
		cfg.Replies.Immediates = new(replies.Immediates)
		rpc.ImmediateReplies, rpc.Immediate = true, cfg.Replies.Immediates.Immediate
		cfg.Transport = &rpc
	}
	return d, nil
}

// tell says whether replies are pushed, and what a run before this one has left, and gives its room back.
func (a *app) tell(r *replies.Client) {
	if r == nil {
		return
	}
	if err := r.Offered(); errors.Is(err, replies.ErrNoProgram) {
		fmt.Fprintln(a.stderr, "nfsdemo: this server pushes no replies: they count as soon as they arrive, unless it is started with --replies ADDRESS")
	} else if err != nil {
		fmt.Fprintf(a.stderr, "nfsdemo: no replies are pushed yet, so that they count when they come: %v\n", err)
	}
	answered, asked := r.Recovered(), r.Unanswered()
	for _, x := range answered {
		fmt.Fprintf(a.stderr, "nfsdemo: an earlier run was answered: %s\n", replyText(x))
		r.Done(x.Seq)
	}
	for _, i := range asked {
		fmt.Fprintf(a.stderr, "nfsdemo: an earlier run was not answered: %s, call %d.%08x: it may have been done\n",
			procText(i.Prog, i.Vers, i.Proc), i.Epoch, i.XID)
		r.Settle(i)
	}
}
