package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/backend"
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
	default:
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
	s.log.Info("unexported", "path", path)
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
	s.log.Info("client kicked", "client", client, "connections", conns, "mounts", mounts)
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
	log     *slog.Logger
	changed atomic.Bool
	end     chan struct{} // nil: nobody keeps it
	wg      sync.WaitGroup
}

// change has the list written soon.
func (f *mountFile) change() { f.changed.Store(true) }

// read returns the list of before.
func (f *mountFile) read() (list []server.Mount) {
	if f.name == "" {
		return nil
	}
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
	f.end = make(chan struct{})
	f.wg.Go(func() {
		for kept := true; kept; {
			select {
			case <-time.After(time.Second):
			case <-f.end:
				kept = false // what has changed since is written now
			}
			if f.changed.Swap(false) {
				f.write(list())
			}
		}
	})
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
	if err != nil {
		f.log.Warn("the list of mounts is not kept", "error", err)
	}
}

// close writes the list for the last time.
func (f *mountFile) close() error {
	if f.end != nil {
		close(f.end)
		f.wg.Wait()
	}
	return nil
}

// controlFlags are the flags of exports.
type controlFlags struct {
	socket                    string
	unexport, kick, freeLocks string
}

// exportsCmd is the command exports.
func (a *app) exportsCmd() *cobra.Command {
	f := &controlFlags{}
	cmd := &cobra.Command{
		Use:   "exports",
		Short: "See and steer the server of this machine",
		Long: `exports asks the server that runs on this machine what it serves, to whom, who has mounted it,
and which locks are held. It must be run by root, or by the user of the server. A client that
crashed never unmounts: the list of mounts is what clients have said, also before the server
started again. Of a file that is locked it shows the inode: find DIR -inum N.

--unexport stops serving a directory at once, so that its disk can be unmounted; it is served
again when the server reads its configuration again (SIGHUP) or starts. --kick closes the
connections of a client, and forgets what it has mounted; it may come back unless the exports
no longer name it. --free-locks takes the locks of a client that will not come back, by its
address or its name.

The status is 0, 1 if there is no such server, export, client or lock, and 2 if the
command line was not understood.`,
		Example: `  nfsdemo exports
  nfsdemo exports --json
  nfsdemo exports --unexport /srv/data && umount /srv/data
  nfsdemo exports --kick 192.0.2.7
  nfsdemo exports --free-locks client7.example.com
  nfsdemo exports --control /run/other/control`,
		Args: nArgs(0, 0, "no arguments, only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			action := ""
			for _, name := range []string{"unexport", "kick", "free-locks"} {
				if !cmd.Flags().Changed(name) {
					continue
				}
				if action != "" {
					return usagef("--%s and --%s: give one of them", action, name)
				}
				action = name
			}
			what := f.unexport + f.kick + f.freeLocks
			if action != "" && what == "" {
				return usagef("--%s: want a %s", action, cmp.Or(map[string]string{"unexport": "directory"}[action], "client"))
			}
			return a.exports(cmd.Context(), f.socket, action, what)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.socket, "control", "", "`path` of the server's socket; \"\": control in $STATE_DIRECTORY, or in nfsdemo in $XDG_STATE_HOME, /var/lib (root) or ~/.local/state")
	flags.StringVar(&f.unexport, "unexport", "", "stop serving this `directory`")
	flags.StringVar(&f.kick, "kick", "", "close the connections of this `client`, an address or a name, and forget its mounts")
	flags.StringVar(&f.freeLocks, "free-locks", "", "free the locks of this `client`, an address or what it calls itself")
	flags.BoolVar(&a.json, "json", false, "print the list as JSON")
	return cmd
}

// exports shows what the server says, or has it do something.
func (a *app) exports(ctx context.Context, at, action, what string) error {
	if at == "" {
		dir := stateDir()
		if dir == "" {
			return usagef("the place of the socket is not known: --control PATH")
		}
		at = filepath.Join(dir, controlName)
	}
	if action != "" {
		if action == "unexport" {
			abs, err := filepath.Abs(what)
			if err != nil {
				return err
			}
			what = filepath.ToSlash(abs)
		}
		did, err := askControl(ctx, at, http.MethodPost, "/"+action+"?of="+url.QueryEscape(what))
		if err == nil {
			fmt.Fprint(a.stdout, quoteName(strings.TrimSuffix(string(did), "\n"))+"\n")
		}
		return err
	}
	text, err := askControl(ctx, at, http.MethodGet, "/status.json")
	if err != nil {
		return err
	}
	var r exportsJSON
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: the server says what this version of nfsdemo does not understand: %w", at, err)
	}
	if a.json {
		r.Mounts, r.Locks = append([]ops.Mount{}, r.Mounts...), append([]ops.Lock{}, r.Locks...) // [], not null
		return a.printJSON(&r)
	}
	a.printExports(&r)
	return nil
}

// askControl makes a request at the control socket.
func askControl(ctx context.Context, at, method, what string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, ops.Timeout+time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+what, http.NoBody)
	if err != nil {
		return nil, err
	}
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", at)
	}}
	res, err := tr.RoundTrip(req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no server at %s: start it, be root if it is root's, or name its socket with --control", at)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: permission denied: be root, or the user of the server", at)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at, bareListen(err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReport))
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	return text, err
}

// maxReport is more than a report has, in octets.
const maxReport = 64 << 20

// exportsJSON is the output of exports --json, a part of ops.Report.
type exportsJSON struct {
	Exports   []ops.Export  `json:"exports"`
	Mounts    []ops.Mount   `json:"mounts"`
	Clients   []ops.Client  `json:"clients"`
	Locks     []ops.Lock    `json:"locks"`
	LockCount int           `json:"lock_count"` // Locks has no more than 1000 of them
	Lockd     string        `json:"lock_manager,omitempty"`
	Problems  []ops.Problem `json:"problems"`
}

// printExports prints for people.
func (a *app) printExports(r *exportsJSON) {
	conns := make(map[string]int)
	for _, c := range r.Clients {
		if host, _, err := net.SplitHostPort(c.Address); err == nil {
			conns[host]++
		}
	}
	mounted := func(export string) (rows [][]string) {
		for _, m := range r.Mounts {
			if m.Export == export {
				rows = append(rows, []string{"  " + m.Client, m.Path, m.Since.Local().Format("2006-01-02 15:04"), strconv.Itoa(conns[m.Client]) + " connections"})
			}
		}
		return rows
	}
	for _, e := range r.Exports {
		if len(e.Clients) < 2 {
			fmt.Fprintf(a.stdout, "%s  %s\n", quoteName(e.Path), quoteName(e.Mode))
		} else {
			fmt.Fprintf(a.stdout, "%s\n", quoteName(e.Path))
			for _, c := range e.Clients {
				fmt.Fprintf(a.stdout, "  %s\n", quoteName(c))
			}
		}
		if e.Away != "" {
			fmt.Fprintf(a.stdout, "  not served now: %s\n", quoteName(e.Away))
		}
		a.printRows(mounted(e.Path))
	}
	if rows := mounted(""); len(rows) > 0 {
		fmt.Fprintln(a.stdout, "exported no longer, but mounted:")
		a.printRows(rows)
	}
	if len(r.Exports)+len(r.Mounts) == 0 {
		fmt.Fprintln(a.stdout, "nothing is exported")
	}
	if r.Lockd != "" {
		fmt.Fprintf(a.stdout, "locks %s\n", quoteName(r.Lockd))
	}
	var rows [][]string
	for _, l := range r.Locks {
		how, end := "shared", "end"
		if l.Exclusive {
			how = "exclusive"
		}
		if l.Waits {
			how += ", waits"
		}
		if l.End != backend.LockEnd {
			end = strconv.FormatUint(l.End, 10)
		}
		rows = append(rows, []string{"  " + l.Client, l.Name, fmt.Sprintf("process %d", l.Process), how, fmt.Sprintf("octets %d-%s", l.Start, end), fmt.Sprintf("inode %d of %s", l.Inode, cmp.Or(l.Export, "?"))})
	}
	a.printRows(rows)
	if more := r.LockCount - len(r.Locks); more > 0 {
		fmt.Fprintf(a.stdout, "  and %d more\n", more)
	}
}

// printRows prints columns, in which nothing that a client has said moves the cursor.
func (a *app) printRows(rows [][]string) {
	for _, row := range rows {
		for i := range row {
			row[i] = quoteName(row[i])
		}
	}
	printColumns(a.stdout, rows, 9, true, " ") // all of them to the left
}
