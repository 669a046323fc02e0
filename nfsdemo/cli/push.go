package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
)

// pushConfig are the flags of push-mode writes.
type pushConfig struct {
	dir    string        // of the logs; "": no such writes
	listen string        // for commit connections; "": where NFS/RDMA is, any port
	recall time.Duration // how long a client may keep a lease that is asked back
	status string        // address of /status; "": none
	limits pushLimits
}

func (p *pushConfig) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.dir, "push-log", "", "take push-mode writes, by logs in this `directory`, outside of the export; made if it is not there")
	flags.StringVar(&p.listen, "push-listen", "", "`address` for the connections of logs (default that of --listen, any port)")
	flags.DurationVar(&p.recall, "push-recall", pushwrite.DefaultRecallTime, "how long a client may take to give a file back that others want to change")
	flags.StringVar(&p.status, "status", "", "`address` for http://.../status, what the server is doing as JSON, and /metrics, for Prometheus")
	p.limits.add(cmd)
}

// check refuses what cannot be meant.
func (p *pushConfig) check(cfg *serviceConfig) error {
	for flag, addr := range map[string]string{"push-listen": p.listen, "status": p.status} {
		if _, _, err := net.SplitHostPort(addr); addr != "" && err != nil {
			return usagef("--%s %q is not an address: write host:port, for example 127.0.0.1:9049", flag, addr)
		}
	}
	if err := p.limits.check(p.dir); err != nil {
		return err
	}
	switch {
	case p.dir == "" && p.listen != "":
		return usagef("--push-listen is for --push-log DIR: give both")
	case p.dir == "" && p.recall != 0 && p.recall != pushwrite.DefaultRecallTime:
		return usagef("--push-recall is for --push-log DIR: give both")
	case p.dir == "":
		return nil
	case cfg.memory:
		return usagef("--push-log with --memory: the logs would outlive the files; export a directory")
	case cfg.readOnly:
		return usagef("--push-log with --read-only: what the logs hold could not be applied; leave one out")
	case cfg.rdma == "":
		return usagef("--push-log wants --listen: writes are pushed by RDMA")
	case p.recall <= 0:
		return usagef("--push-recall %v: want a time above zero, for example 10s", p.recall)
	}
	cfg.config.BackwardCredits = max(cfg.config.BackwardCredits, backwardCredits)
	return p.checkDir(cfg.export)
}

// backwardCredits is how many leases of one connection are asked back at the same time.
const backwardCredits = 8

// checkDir refuses a directory that clients could write to, and makes it if it is not there.
func (p *pushConfig) checkDir(export string) error {
	if abs, err := filepath.Abs(export); err == nil && inside(p.dir, abs) {
		return usagef("--push-log %s is inside the export: clients could write to the logs of others; put it elsewhere", p.dir)
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("--push-log %s: %w", p.dir, bare(err))
	}
	return nil
}

// pushService are the parts of a service that push-mode writes and /status need. A nil
// *pushService does nothing.
type pushService struct {
	pw      *pushwrite.Server // nil: only /status
	commits net.Listener
	status  net.Listener
	http    *http.Server
}

// openPush opens the logs and the listeners; nil: there are none.
func openPush(ctx context.Context, cfg *serviceConfig) (*pushService, error) {
	c := &cfg.push
	if c.dir == "" && c.status == "" {
		return nil, nil
	}
	p := &pushService{}
	var err error
	if c.status != "" {
		if p.status, err = listenOn(ctx, c.status); err != nil {
			return nil, err
		}
	}
	if c.dir == "" {
		return p, nil
	}
	addr := c.listen
	if addr == "" {
		host, _, _ := net.SplitHostPort(cfg.rdma) // was checked
		addr = net.JoinHostPort(host, "0")
	}
	if p.commits, err = listenOn(ctx, addr); err != nil {
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
	p.commits = allowed(cfg.capture.TapListener(p.commits), cfg.config.Allow)
	return p, nil
}

func listenOn(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &transport.OpError{Op: transport.OpListen, Addr: addr, Err: bareListen(err)}
	}
	return l, nil
}

// start applies what the logs hold.
func (p *pushService) start(ctx context.Context, h *server.Server, export string) error {
	if p == nil || p.pw == nil {
		return nil
	}
	if err := p.pw.Start(ctx, h); err != nil {
		return fmt.Errorf("applying what the logs of %s hold: %w", export, err)
	}
	return nil
}

// serve serves the listeners.
func (p *pushService) serve(s *service) {
	if p == nil {
		return
	}
	if pw := p.pw; pw != nil { // close may come before it is served
		s.wg.Go(func() {
			if err := pw.Serve(p.commits); !errors.Is(err, push.ErrServerClosed) {
				s.errs <- err
			}
		})
	}
	if p.status != nil {
		p.http = &http.Server{Handler: statusHandler(s), ReadTimeout: statusTimeout, WriteTimeout: statusTimeout}
		s.wg.Go(func() {
			if err := p.http.Serve(p.status); !errors.Is(err, http.ErrServerClosed) {
				s.errs <- err
			}
		})
	}
}

// closeTime bounds the end of logs that are being written.
const closeTime = 5 * time.Second

// close ends everything.
func (p *pushService) close() error {
	if p == nil {
		return nil
	}
	var errs []error
	if p.http != nil {
		errs = append(errs, p.http.Close())
	} else if p.status != nil {
		errs = append(errs, p.status.Close())
	}
	if p.pw != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		errs = append(errs, p.pw.Close(ctx))
		p.pw = nil
	}
	if p.commits != nil {
		_ = p.commits.Close() // again, for most
	}
	return errors.Join(errs...)
}

// addrs returns where commit connections go, and where /status is.
func (p *pushService) addrs() (commits, status string) {
	if p == nil {
		return "", ""
	}
	return addrOf(p.commits), addrOf(p.status)
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
