package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
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

// secretFile is a file with the name of a push log and the secret that gives access to it: a line
// "log NAME" and a line "secret", 32 hexadecimal digits. It is locked as long as it is open,
// because only one process may append to a log.
type secretFile struct {
	f      *os.File
	path   string
	name   string
	secret push.Secret
}

// errSecretUsed reports that another process has locked the file.
var errSecretUsed = errors.New("another nfsdemo is using this push log: use another --push-secret FILE")

// openSecret opens the file, and makes it if it does not exist.
func openSecret(path string) (*secretFile, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		s := &secretFile{f: f, path: path}
		if err = lockFile(f); err == nil {
			err = s.read()
		}
		if err == nil && s.secret == (push.Secret{}) {
			s.name, s.secret = "nfsdemo-"+rand.Text(), push.NewSecret()
			err = s.keep()
		}
		if err == nil && s.named() {
			return s, nil
		}
		_ = f.Close() // nothing was written
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}

// named reports whether the open file still has its name: the process that had it open before may
// have removed it.
func (s *secretFile) named() bool {
	own, err := s.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(s.path)
	return err == nil && os.SameFile(own, there)
}

// read reads a file. If it is empty, there is no secret.
func (s *secretFile) read() error {
	st, err := s.f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errNotRegular
	case runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0:
		return errors.New("others can read this secret: run chmod 600, or remove the file if the secret may be known")
	case st.Size() == 0:
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(s.f, 1024))
	if err != nil {
		return err
	}
	var digits string
	if n, err := fmt.Sscanf(string(b), "log %64s\nsecret %32s\n", &s.name, &digits); err != nil || n != 2 {
		return errNoSecret
	}
	var secret push.Secret
	if n, err := hex.Decode(secret[:], []byte(digits)); err != nil || n != len(secret) {
		return errNoSecret
	}
	s.secret = secret
	return nil
}

var errNoSecret = errors.New("holds no secret of a push log: use another --push-secret FILE; an empty or new one gets a new log")

// keep makes the secret of a new log durable, before it is used.
func (s *secretFile) keep() error {
	if _, err := s.f.WriteAt(fmt.Appendf(nil, "log %s\nsecret %x\n", s.name, s.secret[:]), 0); err != nil {
		return err
	}
	if err := s.f.Sync(); err != nil {
		return err
	}
	return pmem.SyncDir(filepath.Dir(s.path))
}

// close unlocks the log for other processes.
func (s *secretFile) close() {
	_ = s.f.Close() // what was written is synced
}

// readSecret reads a file that another process may have locked: reading a log disturbs nobody.
func readSecret(path string) (*secretFile, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: name the file of whoever appends to the log", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &secretFile{f: f, path: path}
	if err = s.read(); err == nil && s.secret == (push.Secret{}) {
		err = errNoSecret
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// pushLimits are the flags that limit the push logs. Zeros are the defaults.
type pushLimits struct {
	logs, clientLogs   int
	space, clientSpace size // of rings
}

func (l *pushLimits) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&l.logs, "push-logs", 0, "most push logs of all clients together; 0: 1024")
	flags.IntVar(&l.clientLogs, "client-push-logs", 0, "most push logs made for one client address; 0: an eighth of all, -1: no separate limit")
	flags.Var(&l.space, "push-space", "memory that the rings of all push logs may take; 0: 1G")
	flags.Var(&l.clientSpace, "client-push-space", "most of it for one client address; 0: a quarter of all, -1: no separate limit")
}

// check refuses limits without --push-log, and limits out of range.
func (l *pushLimits) check(dir string) error {
	if dir == "" && *l != (pushLimits{}) {
		return usagef("--push-logs, --push-space, --client-push-logs and --client-push-space need --push-log DIR: add it")
	}
	return checkLimits(
		limit{"push-logs", int64(l.logs), 1, maxCount, 0},
		limit{"client-push-logs", int64(l.clientLogs), 1, maxCount, unlimited},
		limit{"push-space", int64(l.space), 1 << 20, maxSize, inOctets},
		limit{"client-push-space", int64(l.clientSpace), 1 << 20, maxSize, inOctets | unlimited},
	)
}

// limits converts the flags.
func (l *pushLimits) limits() push.Limits {
	return push.Limits{
		MaxLogs: l.logs, ClientLogs: l.clientLogs, MaxOctets: uint64(l.space), ClientOctets: int64(l.clientSpace),
	}
}
