package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
)

// pushConfig are the flags of push logs.
type pushConfig struct {
	dir    string // of the logs; "": none
	listen string // for commit connections; "": the address of NFS/RDMA, any port
	limits pushLimits
}

func (p *pushConfig) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.dir, "push-log", "", "keep logs that clients append to in this `directory` outside the export; made if it does not exist")
	flags.StringVar(&p.listen, "push-listen", "", "`address` for the connections of push logs (default: host of --listen, any free port)")
	p.limits.add(cmd)
}

// check refuses flags that make no sense together.
func (p *pushConfig) check(cfg *serviceConfig) error {
	if err := p.limits.check(p.dir); err != nil {
		return err
	}
	switch {
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
		Limits: push.Limits{MaxLogs: c.limits.logs, MaxOctets: uint64(c.limits.space)},
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

// pushLimits are the flags that limit the push logs. Zeros are the defaults.
type pushLimits struct {
	logs  int
	space size // of rings
}

func (l *pushLimits) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&l.logs, "push-logs", 0, "most push logs of all clients together, an eighth of them those of one client address; 0: 1024")
	flags.Var(&l.space, "push-space", "memory that the rings of all push logs may take, a quarter of it those of one client address; 0: 1G")
}

// check refuses limits without --push-log, and limits out of range.
func (l *pushLimits) check(dir string) error {
	if dir == "" && *l != (pushLimits{}) {
		return usagef("--push-logs and --push-space need --push-log DIR: add it")
	}
	return checkLimits(
		limit{"push-logs", int64(l.logs), 1, maxCount, 0},
		limit{"push-space", int64(l.space), 1 << 20, maxSize, inOctets},
	)
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
