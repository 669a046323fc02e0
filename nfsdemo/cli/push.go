package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/push"
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
	if _, _, err := net.SplitHostPort(p.listen); p.listen != "" && err != nil {
		return usagef("--push-listen %q is not an address: write host:port, for example 127.0.0.1:9049", p.listen)
	}
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

// pushService is the part of a service for push logs. A nil *pushService does nothing.
type pushService struct {
	srv     *push.Server
	lock    *os.File // keeps other servers out of the directory
	commits net.Listener
}

// openPush opens the logs and their listener. It returns nil if the flags do not ask for them. Calls of other
// programs go to next.
func openPush(ctx context.Context, cfg *serviceConfig, next rpc.Handler) (*pushService, error) {
	c := &cfg.push
	if c.dir == "" {
		return nil, nil
	}
	p := &pushService{}
	var err error
	if p.lock, err = os.OpenFile(filepath.Join(c.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		err = lockFile(p.lock)
	}
	switch {
	case errors.Is(err, errSecretUsed):
		err = errors.New("another server has it open: stop that one, or give each a directory of its own")
		fallthrough
	case err != nil:
		return nil, errors.Join(fmt.Errorf("--push-log %s: %w", c.dir, bare(err)), p.close())
	}
	addr := c.listen
	if addr == "" {
		host, _, _ := net.SplitHostPort(cfg.rdma) // checked before
		addr = net.JoinHostPort(host, "0")
	}
	if p.commits, err = cfg.sockets.listen(ctx, "push-listen", addr); err != nil {
		return nil, errors.Join(err, p.close())
	}
	_, port, _ := net.SplitHostPort(p.commits.Addr().String())
	p.srv = &push.Server{
		Store: push.Dir(c.dir, pmem.File), Addr: ":" + port, TLS: cfg.tls.config(), Limits: c.limits.limits(), Next: next, Logger: cfg.config.Logger,
	}
	// A log that cannot be opened is in the server's log, and its owner is told; the others are served.
	if err := p.srv.Load(); errors.Is(err, rpc.ErrConfig) {
		return nil, errors.Join(fmt.Errorf("--push-log %s: %w", c.dir, err), p.close())
	}
	p.commits = allowed(cfg.capture.TapListener(p.commits), cfg.config.Limits.Allow)
	return p, nil
}

// serve serves the commit connections.
func (p *pushService) serve(s *service) {
	if p == nil {
		return
	}
	s.wg.Go(func() {
		if err := p.srv.Serve(p.commits); !errors.Is(err, push.ErrServerClosed) {
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
	var err error
	if p.srv != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		err = p.srv.Close(ctx)
	}
	if p.commits != nil {
		_ = p.commits.Close() // it may be closed already
	}
	if p.lock != nil {
		_ = p.lock.Close() // nothing is written there
	}
	return err
}

// addr returns the address for commit connections.
func (p *pushService) addr() string {
	if p == nil {
		return ""
	}
	return addrOf(p.commits)
}

// pushLines are the lines of the port file about push logs.
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
