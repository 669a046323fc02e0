package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/push"
)

// pushConfig are the flags of push-mode writes.
type pushConfig struct {
	dir    string        // of the logs; "": no push-mode writes
	listen string        // for commit connections; "": the address of NFS/RDMA, any port
	recall time.Duration // how long a client may keep a recalled lease
	limits pushLimits
}

func (p *pushConfig) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.dir, "push-log", "", "accept push-mode writes, with logs in this `directory` outside the export; made if it does not exist")
	flags.StringVar(&p.listen, "push-listen", "", "`address` for the connections of push logs (default: host of --listen, any free port)")
	flags.DurationVar(&p.recall, "push-recall", pushwrite.DefaultRecallTime, "how long a client may take to give back a file that others want to use")
	p.limits.add(cmd)
}

// check refuses flags that make no sense together.
func (p *pushConfig) check(cfg *serviceConfig) error {
	if _, _, err := net.SplitHostPort(p.listen); p.listen != "" && err != nil {
		return usagef("--push-listen %q is not an address: write host:port, for example 127.0.0.1:9049", p.listen)
	}
	if err := p.limits.check(p.dir); err != nil {
		return err
	}
	switch {
	case p.dir == "" && p.listen != "":
		return usagef("--push-listen needs --push-log DIR: add it")
	case p.dir == "" && p.recall != 0 && p.recall != pushwrite.DefaultRecallTime:
		return usagef("--push-recall needs --push-log DIR: add it")
	case p.dir == "":
		return nil
	case cfg.memory:
		return usagef("--push-log with --memory: the logs would outlive the files; export a directory instead")
	case cfg.allReadOnly():
		return usagef("--push-log with --read-only: the server could not apply the logs; leave one out")
	case cfg.rdma == "":
		return usagef("--push-log needs --listen ADDRESS: writes are pushed by RDMA")
	case p.recall <= 0:
		return usagef("--push-recall %v: want a positive time, for example 10s", p.recall)
	}
	cfg.config.Backward.Credits = max(cfg.config.Backward.Credits, backwardCredits)
	return p.checkDir(cfg.exports)
}

// backwardCredits is how many leases of one connection can be recalled at the same time.
const backwardCredits = 8

// checkDir refuses a directory that clients could write to, and makes it if it does not exist.
func (p *pushConfig) checkDir(list []exports.Export) error {
	if slices.ContainsFunc(list, func(e exports.Export) bool { return insideExport(p.dir, &e) }) {
		return usagef("--push-log %s is inside the export: clients could write to the logs of others; name a directory elsewhere", p.dir)
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("--push-log %s: %w", p.dir, bare(err))
	}
	return nil
}

// insideExport reports whether a directory is in an export.
func insideExport(d string, e *exports.Export) bool {
	abs, err := filepath.Abs(e.Path)
	return err == nil && d != "" && inside(d, abs)
}

// allReadOnly reports whether no export can be changed.
func (cfg *serviceConfig) allReadOnly() bool {
	return !slices.ContainsFunc(cfg.exports, func(e exports.Export) bool {
		return !e.ReadOnly || slices.ContainsFunc(e.Clients, func(c server.Client) bool { return !c.ReadOnly })
	})
}

// pushService is the part of a service for push-mode writes. A nil *pushService does nothing.
type pushService struct {
	pw      *pushwrite.Server // nil after close
	commits net.Listener
}

// openPush opens the logs and their listener. It returns nil if the flags do not ask for them.
func openPush(ctx context.Context, cfg *serviceConfig) (*pushService, error) {
	c := &cfg.push
	if c.dir == "" {
		return nil, nil
	}
	p := &pushService{}
	var err error
	addr := c.listen
	if addr == "" {
		host, _, _ := net.SplitHostPort(cfg.rdma) // checked before
		addr = net.JoinHostPort(host, "0")
	}
	if p.commits, err = cfg.sockets.listen(ctx, "push-listen", addr); err != nil {
		return nil, errors.Join(err, p.close())
	}
	_, port, _ := net.SplitHostPort(p.commits.Addr().String())
	p.pw, err = pushwrite.Open(&pushwrite.Config{
		Dir: c.dir, Addr: ":" + port, RecallTime: c.recall, Limits: c.limits.limits(), Logger: cfg.config.Logger,
	})
	if errors.Is(err, pmem.ErrLocked) {
		err = errors.New("another server has it open: stop that one, or give each export a directory of its own")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--push-log %s: %w", c.dir, err), p.close())
	}
	p.commits = allowed(cfg.capture.TapListener(p.commits), cfg.config.Limits.Allow)
	return p, nil
}

// start applies the records in the logs.
func (p *pushService) start(ctx context.Context, h *server.Server, export string) error {
	if p == nil {
		return nil
	}
	if err := p.pw.Start(ctx, h); err != nil {
		return fmt.Errorf("applying the push logs of %s: %w", export, err)
	}
	return nil
}

// serve serves the commit connections.
func (p *pushService) serve(s *service) {
	if p == nil {
		return
	}
	pw := p.pw // close may come before the goroutine runs
	s.wg.Go(func() {
		if err := pw.Serve(p.commits); !errors.Is(err, push.ErrServerClosed) {
			s.errs <- err
		}
	})
}

// closeTime limits the wait for logs that are being written.
const closeTime = 5 * time.Second

// close ends everything.
func (p *pushService) close() error {
	if p == nil {
		return nil
	}
	var errs []error
	if p.pw != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		errs = append(errs, p.pw.Close(ctx))
		p.pw = nil
	}
	if p.commits != nil {
		_ = p.commits.Close() // it may be closed already
	}
	return errors.Join(errs...)
}

// addr returns the address for commit connections.
func (p *pushService) addr() string {
	if p == nil {
		return ""
	}
	return addrOf(p.commits)
}

// pushLines are the lines of the port file about push-mode writes.
func (r *readyJSON) pushLines() string {
	var s string
	if r.Push != "" {
		s += "\nPUSH=" + r.Push
	}
	if r.Status != "" {
		s += "\nSTATUS=" + r.Status
	}
	return s
}

// inside reports whether path is dir, or below it.
func inside(path, dir string) bool {
	abs, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(dir, abs)
	return err == nil && filepath.IsLocal(rel)
}
