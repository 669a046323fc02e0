package cli

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// pushConfig are the flags of push logs.
type pushConfig struct {
	dir    string // of the logs; "": none
	listen string // for commit connections; "": the address of NFS/RDMA, any port
	logs   int    // limit; 0: the default
	space  int64  // of all rings; 0: the default
}

func (p *pushConfig) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.dir, "push-log", "", "keep logs that clients append to in this `directory` outside the export; made if it does not exist")
	flags.StringVar(&p.listen, "push-listen", "", "`address` for the connections of push logs (default: host of --listen, any free port)")
	flags.Var(number[int]{&p.logs, 1, maxCount, orDefault}, "push-logs", "most push logs of all clients together, an eighth of them those of one client address; 0: 1024")
	flags.Var(number[int64]{&p.space, 1 << 20, maxSize, orDefault | inOctets}, "push-space", "memory that the rings of all push logs may take, a quarter of it those of one client address; 0: 1G")
}

// check refuses flags that make no sense together.
func (p *pushConfig) check(cfg *serviceConfig) error {
	switch {
	case p.dir == "" && (p.logs != 0 || p.space != 0):
		return usagef("--push-logs and --push-space need --push-log DIR: add it")
	case p.dir == "" && p.listen != "":
		return usagef("--push-listen needs --push-log DIR: add it")
	case p.dir == "":
		return nil
	case cfg.rdma == "":
		return usagef("--push-log needs --listen ADDRESS: records are appended by RDMA")
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("--push-log %s: %w", p.dir, bare(err))
	}
	return nil
}

// openPush opens the logs and their listener, if the flags ask for them. Calls of other programs go to NFS.
func (s *service) openPush(ctx context.Context) error {
	cfg, c := s.cfg, &s.cfg.push
	if c.dir == "" {
		return nil
	}
	var err error
	if s.pushLock, err = os.OpenFile(filepath.Join(c.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		err = lockFile(s.pushLock) // keeps other servers out of the directory
	}
	if errors.Is(err, errSecretUsed) {
		err = errors.New("another server has it open: stop that one, or give each a directory of its own")
	}
	if err != nil {
		return fmt.Errorf("--push-log %s: %w", c.dir, bare(err))
	}
	addr := c.listen
	if addr == "" {
		host, _, _ := net.SplitHostPort(cfg.rdma) // checked before
		addr = net.JoinHostPort(host, "0")
	}
	l, err := cfg.sockets.listen(ctx, "push-listen", addr)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s.commits = allowed(cfg.capture.TapListener(l), cfg.config.Limits.Allow)
	s.push = &push.Server{
		Store: push.Dir(c.dir, pmem.File), Addr: ":" + port, TLS: cfg.tls.config(), Next: s.nfs, Logger: cfg.config.Logger,
		Limits: push.Limits{MaxLogs: c.logs, MaxOctets: uint64(c.space)},
	}
	// A log that cannot be opened is in the server's log, and its owner is told; the others are served.
	if err := s.push.Load(); errors.Is(err, rpc.ErrConfig) {
		return fmt.Errorf("--push-log %s: %w", c.dir, err)
	}
	return nil
}

// closeTime limits the wait for logs that are being written.
const closeTime = 5 * time.Second

// closePush ends everything.
func (s *service) closePush() error {
	var err error
	if s.push != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		err = s.push.Close(ctx)
	}
	_ = closed(s.commits)
	s.pushing.Wait()
	if s.pushLock != nil {
		_ = s.pushLock.Close() // nothing is written there
	}
	return err
}

// openReplies opens the listener for the connections of logs, if the flags ask for it.
func (s *service) openReplies(ctx context.Context) error {
	cfg := s.cfg
	if cfg.replies == "" {
		return nil
	}
	l, err := cfg.sockets.listen(ctx, "replies", cfg.replies)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s.replyL = allowed(cfg.capture.TapListener(l), cfg.config.Limits.Allow)
	s.pusher = &replies.Pusher{
		Handler: &s.table, Addr: ":" + port, TLS: cfg.tls.config(), Logger: cfg.config.Logger,
		MaxQueued: queuedReplies, MaxClients: replyLogs(cfg.config),
		Choose: func(prog, _, proc uint32) bool { return prog == nfs3.Program && !nfs3.Proc(proc).Idempotent() },
	}
	return nil
}

// queuedReplies are the octets in flight to one log: some 200 replies of NFS that change something. Those of all logs
// take at most a quarter of --memory-limit, whatever their clients do not acknowledge.
const queuedReplies = 64 << 10

// replyLogs returns how many logs there may be, at most 1024.
func replyLogs(cfg *transport.Config) int {
	return int(max(min(cmp.Or(cfg.Limits.Memory, transport.DefaultMemory)/4/queuedReplies, 1024), 8))
}

// closeReplies ends everything.
func (s *service) closeReplies() error {
	if s.pusher == nil {
		return nil
	}
	_ = closed(s.replyL)
	err := s.pusher.Close()
	s.replying.Wait()
	return err
}

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
		fmt.Fprintf(a.stderr, "nfsdemo: a call of an earlier run was answered: %s, call %d.%08x: %s\n", procText(x.Prog, x.Vers, x.Proc), x.Epoch, x.XID, resultText(x))
		r.Done(x.Seq)
	}
	for _, i := range asked {
		fmt.Fprintf(a.stderr, "nfsdemo: a call of an earlier run was not answered, and may have been done: %s, call %d.%08x\n",
			procText(i.Prog, i.Vers, i.Proc), i.Epoch, i.XID)
		r.Settle(i)
	}
}

// replyJSON is a line of log replies --json.
type replyJSON struct {
	Seq      uint64 `json:"seq,omitempty"` // of the reply; none: not answered
	Epoch    uint32 `json:"epoch"`
	XID      uint32 `json:"xid"`
	Prog     uint32 `json:"prog"`
	Vers     uint32 `json:"vers"`
	Proc     uint32 `json:"proc"`
	Name     string `json:"name"` // of the procedure
	Digest   string `json:"digest"`
	Answered bool   `json:"answered"`
	Result   string `json:"result,omitempty"`
	Reply    []byte `json:"reply,omitempty"` // base64
}

// logRepliesCmd is the command log replies.
func (a *app) logRepliesCmd() *cobra.Command {
	return &cobra.Command{
		Use: "replies DIR", Short: "Print the calls of a client that were answered, and those that were not",
		Long: `replies prints the logs of a client that was run with --replies DIR: the replies that
		it had not used yet when it ended, and the calls that were not answered. After a clean
		end there are none of either.`,
		Example: "  nfsdemo log replies ~/replies\n  nfsdemo log replies --json ~/replies | jq 'select(.answered | not)'",
		Args:    nArgs(1, 1, "one directory"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.logReplies(args[0]) },
	}
}

func (a *app) logReplies(dir string) error {
	st, err := inspectReplies(dir)
	if err != nil {
		return err
	}
	if !a.json {
		if _, err := fmt.Fprintf(a.stdout, "%10s %6s %8s  %-8s  %s\n", "SEQ", "EPOCH", "XID", "CALL", "RESULT"); err != nil {
			return err
		}
	}
	for _, r := range st.Replies {
		j := replyJSON{
			Seq: r.Seq, Epoch: r.Epoch, XID: r.XID, Prog: r.Prog, Vers: r.Vers, Proc: r.Proc, Answered: true,
			Digest: hex.EncodeToString(r.Digest[:]), Result: resultText(r), Reply: r.Reply,
		}
		if err := a.printReply(&j); err != nil {
			return err
		}
	}
	for _, i := range st.Unanswered {
		j := replyJSON{Epoch: i.Epoch, XID: i.XID, Prog: i.Prog, Vers: i.Vers, Proc: i.Proc, Digest: hex.EncodeToString(i.Digest[:])}
		if err := a.printReply(&j); err != nil {
			return err
		}
	}
	return nil
}

// inspectReplies reads the logs of a directory.
func inspectReplies(dir string) (*replies.State, error) {
	var parts [2]*io.SectionReader
	for i, name := range [...]string{repliesFile, callsFile} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: no reply logs here: name a directory that was used with --replies", dir)
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		parts[i] = io.NewSectionReader(f, 0, st.Size())
	}
	st, err := replies.Inspect(parts[0], parts[1])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return st, nil
}

func (a *app) printReply(j *replyJSON) error {
	j.Name = procText(j.Prog, j.Vers, j.Proc)
	if a.json {
		return a.printJSON(j)
	}
	seq, result := "-", "not answered"
	if j.Answered {
		seq, result = fmt.Sprint(j.Seq), j.Result
	}
	_, err := fmt.Fprintf(a.stdout, "%10s %6d %08x  %-8s  %s\n", seq, j.Epoch, j.XID, j.Name, result)
	return err
}

// procText names a procedure.
func procText(prog, vers, proc uint32) string {
	if prog == nfs3.Program && vers == nfs3.Version {
		return nfs3.Proc(proc).String()
	}
	return fmt.Sprintf("%d.%d.%d", prog, vers, proc)
}

// resultText describes a reply.
func resultText(r *replies.Record) string {
	d := xdr.NewDecoder(r.Reply)
	var h xdr.ReplyHeader
	if err := h.Parse(&d); err != nil {
		return "cannot be decoded: " + err.Error()
	}
	if err := h.Err(); err != nil {
		return err.Error()
	}
	if r.Prog != nfs3.Program {
		return fmt.Sprintf("%d octets", d.Len())
	}
	return nfs3.Status(d.Uint32()).String()
}
