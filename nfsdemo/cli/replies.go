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
