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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// controlName is the name of the control socket in the directory of the state.
const controlName = "control"

// keptIn is the directory of what outlives the server, "" if there is none.
func (cfg *serviceConfig) keptIn() string {
	if cfg.volume != nil {
		return cmp.Or(cfg.state, stateDir())
	}
	return cfg.state // of directories, openKey has found it
}

// openControl opens the control socket. One that nobody has asked for may be missing: another server may have the state, or
// its path be too long. Whoever has it also keeps the list of mounts.
func (s *service) openControl(context.Context) error {
	cfg := s.cfg
	at, dir := cfg.control, cfg.keptIn()
	if at == "" && dir != "" {
		at = filepath.Join(dir, controlName)
	}
	if at == "" {
		return nil
	}
	l, err := listenControl(at)
	switch {
	case err == nil:
		s.control = l
		if dir != "" && !cfg.memory {
			s.mounts.name = filepath.Join(dir, "mounts")
		}
	case cfg.control != "":
		return fmt.Errorf("--control %s: %w", at, err)
	case s.log != nil:
		s.log.Info("nfsdemo exports cannot reach this server: give it --control", "socket", at, "error", err)
	}
	s.mounts.log = s.log
	return nil
}

// listenControl listens on a Unix socket that only the user of this process, and root, can open.
func listenControl(name string) (_ net.Listener, err error) {
	switch c, err := net.DialTimeout("unix", name, time.Second); {
	case err == nil:
		_ = c.Close() // it only showed that somebody listens
		return nil, errors.New("another server listens there")
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
		return nil, controlError(err)
	}
	if st, err := os.Lstat(name); err == nil && st.Mode().Type() != fs.ModeSocket {
		return nil, errors.New("there is a file that is no socket")
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, bare(err)
	}
	tmp, err := os.MkdirTemp(dir, ".control") // of mode 0700, so that nobody opens the socket before it has its mode
	if err != nil {
		return nil, bare(err)
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is empty
	first := filepath.Join(tmp, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: first, Net: "unix"})
	if err != nil {
		return nil, controlError(err)
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(first, 0o600); err == nil {
		err = os.Rename(first, name) // in the place of what a server has left that was killed
	}
	st, serr := os.Lstat(name)
	if err = errors.Join(err, serr); err != nil {
		_ = l.Close() // nobody has connected
		return nil, bare(err)
	}
	return &controlListener{l, name, st}, nil
}

// controlError says what to do about a path that the system refuses.
func controlError(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENAMETOOLONG) {
		return errors.New("a path of about 80 octets is the longest for a socket: name a shorter one")
	}
	return bareListen(err)
}

// controlListener removes its socket.
type controlListener struct {
	net.Listener
	name string
	is   os.FileInfo
}

// Close implements net.Listener.
func (l *controlListener) Close() error {
	if st, err := os.Lstat(l.name); err == nil && os.SameFile(st, l.is) {
		_ = os.Remove(l.name) // the next server replaces it
	}
	return l.Listener.Close()
}

// unexport is --unexport.
func (s *service) unexport(_ context.Context, path string) (string, error) {
	if err := s.set.unexport(path); err != nil {
		return "", err
	}
	if s.log != nil {
		s.log.Info("unexported", "path", path)
	}
	s.set.changed()
	return path + " is not exported any more, until the configuration is read again", nil
}

// kick is --kick.
func (s *service) kick(ctx context.Context, client string) (string, error) {
	hosts, err := net.DefaultResolver.LookupHost(ctx, client) // of an address, that address
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "", fmt.Errorf("no such host: %s", client)
	}
	if err != nil {
		return "", err
	}
	for i, h := range hosts {
		hosts[i] = peeraddr.Host(&net.TCPAddr{IP: net.ParseIP(h)})
	}
	mounts := 0
	for _, h := range hosts {
		mounts += s.nfs.ForgetMounts(h)
	}
	conns := s.srv.Disconnect(func(a net.Addr) bool { return slices.Contains(hosts, peeraddr.Host(a)) })
	if mounts+conns == 0 {
		return "", fmt.Errorf("%s has no connection, and has mounted nothing", client)
	}
	if s.log != nil {
		s.log.Info("client kicked", "client", client, "connections", conns, "mounts", mounts)
	}
	return fmt.Sprintf("%s: %d connections closed, %d mounts forgotten; an export that still admits it serves it again", client, conns, mounts), nil
}

// freeLocks is --free-locks.
func (s *service) freeLocks(_ context.Context, client string) (string, error) {
	if s.locks.srv == nil {
		return "", errors.New("this server has no locks: " + cmp.Or(s.locks.why, "--locks off"))
	}
	if s.locks.srv.Free(client) == 0 {
		return "", fmt.Errorf("no client with the address or the name %s has locked anything", client)
	}
	return "the locks of " + client + " are free", nil
}

// findTime limits how long the files of locks are looked for: a disk may hang.
const findTime = 2 * time.Second

// lockList returns the locks that clients hold, by client and file, and how many there are.
func (s *service) lockList() ([]ops.Lock, int) {
	if s.locks.srv == nil {
		return nil, 0
	}
	held, n := s.locks.srv.Locks(ops.MaxLocks)
	found := make([]uint64, len(held))
	if s.finding.CompareAndSwap(false, true) { // else they are being looked for, perhaps on a disk that hangs
		inodes := make(chan []uint64, 1)
		go func() {
			list := make([]uint64, len(held))
			for i := range held {
				list[i] = s.nfs.FileID(held[i].File)
			}
			s.finding.Store(false)
			inodes <- list
		}()
		select {
		case found = <-inodes:
		case <-time.After(findTime):
		}
	}
	list := make([]ops.Lock, len(held))
	for i := range held {
		h := &held[i]
		list[i] = ops.Lock{
			Export: s.nfs.ExportOf(h.File), Inode: found[i], Client: h.Address, Name: h.Name, Process: h.Lock.Owner.ID,
			Exclusive: h.Lock.Exclusive, Start: h.Lock.Start, End: h.Lock.End, Waits: h.Waits,
		}
	}
	slices.SortFunc(list, func(a, b ops.Lock) int {
		return cmp.Or(cmp.Compare(a.Export, b.Export), cmp.Compare(a.Inode, b.Inode), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Start, b.Start))
	})
	return list, n
}

// mountFile keeps the list of mounts over restarts. It is for people: it is written once a second at most, since anybody may
// mount, and a crash of the machine may lose it.
type mountFile struct {
	name    string // "": it is not kept
	log     *serverLog
	changed chan struct{}
	end     chan struct{}
	ended   chan struct{}
}

// change has the list written soon.
func (f *mountFile) change() {
	select {
	case f.changed <- struct{}{}:
	default: // it will be already, or nobody keeps it
	}
}

// read returns the list of before.
func (f *mountFile) read() (list []server.Mount) {
	if f.name == "" {
		return nil
	}
	f.changed = make(chan struct{}, 1)
	text, err := os.ReadFile(f.name)
	if err != nil {
		return nil // there was none
	}
	for line := range strings.Lines(string(text)) {
		var m server.Mount
		var since int64
		if _, err := fmt.Sscanf(line, "mount %q %q %d", &m.Host, &m.Dir, &since); err == nil { // else it is of another version
			m.Since = time.Unix(since, 0)
			list = append(list, m)
		}
	}
	return list
}

// keep writes the list when it has changed, until close.
func (f *mountFile) keep(list func() []server.Mount) {
	if f.name == "" {
		return
	}
	f.end, f.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(f.ended)
		for {
			select {
			case <-f.changed:
				f.write(list())
			case <-f.end:
				select {
				case <-f.changed:
					f.write(list())
				default:
				}
				return
			}
			select {
			case <-time.After(time.Second):
			case <-f.end:
			}
		}
	}()
}

func (f *mountFile) write(list []server.Mount) {
	var b strings.Builder
	for _, m := range list {
		fmt.Fprintf(&b, "mount %q %q %d\n", m.Host, m.Dir, m.Since.Unix())
	}
	tmp := f.name + ".new"
	err := os.WriteFile(tmp, []byte(b.String()), 0o600)
	if err == nil {
		err = os.Rename(tmp, f.name)
	}
	if err != nil && f.log != nil {
		f.log.Warn("the list of mounts is not kept", "error", err)
	}
}

// close writes the list for the last time.
func (f *mountFile) close() error {
	if f.end != nil {
		close(f.end)
		<-f.ended
	}
	return nil
}
