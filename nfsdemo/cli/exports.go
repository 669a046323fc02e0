package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// exportFlags are the flags that say what is exported.
type exportFlags struct {
	dirs     []string
	file     string
	etc      string
	squash   string
	readOnly bool

	users atomic.Pointer[exports.File] // of what was read last; nil: no file
}

// read returns the exports, without their file systems.
func (f *exportFlags) read() ([]exports.Export, error) {
	base := exports.Defaults()
	base.ReadOnly = f.readOnly
	switch f.squash {
	case "none":
		base.Squash = server.SquashNone
	case "root":
		base.Squash = server.SquashRoot
	case "all":
		base.Squash = server.SquashAll
	default:
		return nil, usagef("--squash %q: want none, root or all", f.squash)
	}
	var list []exports.Export
	for _, d := range f.dirs {
		e, err := exports.Parse(d, base)
		if err != nil {
			return nil, usagef("--export %v", err)
		}
		list = append(list, e)
	}
	if f.file != "" {
		file, err := exports.Load(f.file, base)
		if err != nil {
			return nil, fmt.Errorf("--config %w", bareFile(f.file, err))
		}
		list = append(list, file.Exports...)
		f.users.Store(file)
	}
	if f.etc != "" {
		more, err := exports.LoadEtc(f.etc, base)
		if err != nil {
			return nil, fmt.Errorf("--exports %w", bareFile(f.etc, err))
		}
		list = append(list, more...)
	}
	if len(list) == 0 {
		return nil, usagef("serve needs --export DIR, --exports FILE or --config FILE: see serve --help")
	}
	return list, nil
}

// bareFile is bare with the name of the file, which the errors of a file's content have already.
func bareFile(name string, err error) error {
	if _, ok := errors.AsType[*exports.Error](err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", name, bare(err))
}

// standEvery is how often a look is taken at what stands at the path of a directory: names change without a change in
// the table of mounts.
const standEvery = time.Second

// exportSet are the exports of a service. What is served is a path and the file system that stands there: when
// another one does, or none, it is let go of, so that it can be unmounted, and what stands there then is opened.
type exportSet struct {
	make    func(path string) (backend.FS, error) // opens one whose path is a name; nil: paths are those of directories
	check   func(*exports.Export) error           // of a directory: why it must not be served
	key     []byte                                // of the handles of directories
	log     *slog.Logger
	changed func() // an export was lost, or is back

	mu      sync.Mutex
	dropped map[string]bool  // by unexport, until a configuration is loaded
	made    map[string]*made // by make: they stay, since one in memory would forget its files
	list    []*standing
	publish func([]server.Export) error // serves a list; nil: nobody does yet
	ctx     context.Context             // of those who watch; nil: nobody does
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// made is what make has made of a path, or is making: it may hang, which is nothing to other paths.
type made struct {
	sync.Mutex
	fs backend.FS
}

// standing is an export with the FS of what stands at its path, or nil.
type standing struct {
	exports.Export
	alive   *health
	unwatch context.CancelFunc
	ended   bool                          // it is exported no longer
	crossed bool                          // it is mounted below an export that says crossmnt
	usage   atomic.Pointer[backend.Usage] // when it was looked at last; nil: not known
	stood   string                        // where the mount began that was served last: what shows while nothing is mounted there is not it
}

// load serves what a configuration says, instead of what was served before: all of it is opened anew. What cannot be
// opened is away until it can.
func (s *exportSet) load(list []exports.Export) error {
	if s.ctx == nil {
		s.ctx, s.stop = context.WithCancel(context.Background())
		if s.make == nil {
			s.wg.Go(func() { mountChanges(s.ctx, s.look) })
		}
	}
	fresh := make([]*standing, len(list))
	for i := range list {
		x := &standing{Export: list[i]}
		var err error
		if s.make != nil {
			x.Path = path.Clean("/" + x.Path)
		} else if x.Path, err = filepath.Abs(x.Path); err == nil && x.Mountpoint != "" {
			x.Mountpoint, err = filepath.Abs(x.Mountpoint)
		}
		if err != nil {
			return err
		}
		x.Path = filepath.ToSlash(x.Path)
		for _, says := range x.Says {
			s.log.Info("export option", "path", x.Path, "means", says)
		}
		fresh[i] = x
	}
	if s.make == nil {
		fresh = append(fresh, crossed(fresh, nil)...)
	}
	for _, x := range fresh {
		s.watch(x)
	}
	for _, x := range fresh {
		<-x.alive.first
	}
	s.mu.Lock()
	old := s.list
	s.list = fresh
	err := s.tell()
	if err == nil {
		s.dropped = nil
	} else {
		s.list, old = old, fresh
	}
	s.end(old, err == nil)
	s.mu.Unlock()
	if s.make == nil {
		s.recross() // something may have been mounted meanwhile
	}
	return err
}

// end lets go of exports. Whoever has served them releases them; those that nobody has served are closed here. The caller
// holds s.mu.
func (s *exportSet) end(list []*standing, served bool) {
	for _, x := range list {
		x.ended = true
		x.unwatch()
		if !served && x.FS != nil && s.make == nil {
			go x.FS.Close() //nolint:errcheck // nothing was written
		}
	}
}

// own are the exports of the configuration. The caller holds s.mu.
func (s *exportSet) own() []*standing {
	return slices.DeleteFunc(slices.Clone(s.list), func(x *standing) bool { return x.crossed })
}

// watch begins to look at what stands at the path of an export.
func (s *exportSet) watch(x *standing) {
	x.alive = newHealth(x.Path, s.log, func(context.Context) error { return s.stand(x) })
	if s.make == nil {
		x.alive.every = standEvery
	}
	x.alive.changed = s.changed
	var ctx context.Context
	ctx, x.unwatch = context.WithCancel(s.ctx)
	s.wg.Go(func() { x.alive.watch(ctx) })
}

// crossed are the exports of what is mounted below those that say crossmnt, with their options, but for those of list and what was
// dropped.
func crossed(list []*standing, dropped map[string]bool) (all []*standing) {
	if !slices.ContainsFunc(list, func(x *standing) bool { return x.Cross }) {
		return nil
	}
	seen := make(map[string]bool)
	for _, at := range diskMounts() {
		up := above(list, at)
		same := func(x *standing) bool { return x.Path == at }
		if up == nil || !up.Cross || seen[at] || dropped[at] || slices.ContainsFunc(list, same) {
			continue
		}
		seen[at] = true
		x := &standing{Export: up.Export, crossed: true}
		x.Path, x.Mountpoint, x.FSID, x.FS, x.Released = at, at, "", nil, nil
		all = append(all, x)
	}
	return all
}

// above returns the export with the longest path above another; nil: none.
func above(list []*standing, at string) (best *standing) {
	for _, x := range list {
		if strings.HasPrefix(at, strings.TrimSuffix(x.Path, "/")+"/") && x.Path != at && (best == nil || len(x.Path) > len(best.Path)) {
			best = x
		}
	}
	return best
}

// recross serves what was mounted below exports since, and what is mounted there no longer does not stay.
func (s *exportSet) recross() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []*standing
	list := s.own()
	want := crossed(list, s.dropped)
	for _, x := range s.list {
		i := slices.IndexFunc(want, func(w *standing) bool { return w.Path == x.Path })
		switch {
		case i >= 0 && x.crossed:
			list, want = append(list, x), slices.Delete(want, i, i+1)
		case x.crossed:
			gone = append(gone, x)
		}
	}
	if len(want)+len(gone) == 0 || s.ctx.Err() != nil {
		return
	}
	old := s.list
	s.list = append(list, want...)
	if err := s.tell(); err != nil { // a path is too long
		s.list = old
		s.log.Warn("crossmnt", "error", err)
		return
	}
	for _, x := range want {
		s.watch(x)
	}
	s.end(gone, s.publish != nil)
	for _, x := range gone {
		s.log.Info("export ended: it is mounted no longer", "path", x.Path)
	}
}

// unexport serves an export no longer, until a configuration is loaded again.
func (s *exportSet) unexport(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(x *standing) bool { return x.Path == path })
	if i < 0 {
		return fmt.Errorf("%s is not exported: see nfsdemo exports", path)
	}
	x, old := s.list[i], s.list
	var kept, gone []*standing
	own := s.own()
	for _, y := range old {
		if y == x || y.crossed && above(own, y.Path) == x {
			gone = append(gone, y)
		} else {
			kept = append(kept, y)
		}
	}
	s.list = kept
	if err := s.tell(); err != nil {
		s.list = old
		return err
	}
	s.end(gone, true)
	if s.dropped == nil {
		s.dropped = make(map[string]bool)
	}
	s.dropped[path] = true
	return nil
}

// tell serves the list. The caller holds s.mu.
func (s *exportSet) tell() error {
	if s.publish == nil {
		return nil
	}
	return s.publish(s.exportsLocked())
}

func (s *exportSet) exportsLocked() []server.Export {
	list := make([]server.Export, len(s.list))
	for i, x := range s.list {
		list[i] = x.Export.Export
		if up := above(s.list, x.Path); up != nil && (up.Cross || x.NoHide) && (x.crossed || mountedAt(x.FS, x.Path)) {
			list[i].Under = up.Path
		}
	}
	return list
}

// mountedAt reports whether the root of a directory is that of a mount.
func mountedAt(fsys backend.FS, path string) bool {
	d, ok := fsys.(*dir.FS)
	return ok && d.Mountpoint() == path
}

// exports returns the exports; one that is away has no FS.
func (s *exportSet) exports() []server.Export {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exportsLocked()
}

// says returns what options mean here, for the export of a path.
func (s *exportSet) says(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list {
		if x.Path == path {
			return x.Says
		}
	}
	return nil
}

// serveBy says who serves the exports.
func (s *exportSet) serveBy(publish func([]server.Export) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish = publish
	return s.tell()
}

// look has a look taken at every export now.
func (s *exportSet) look() {
	s.recross()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list {
		x.alive.look()
	}
}

// stand is the check of an export.
func (s *exportSet) stand(x *standing) error {
	s.mu.Lock()
	fsys := x.FS
	s.mu.Unlock()
	if fsys != nil {
		d, ok := fsys.(*dir.FS)
		if !ok {
			_, err := fsys.Root().Attr()
			x.measure(fsys, err)
			return err
		}
		err := d.Check()
		x.measure(fsys, err)
		if err == nil || !s.put(x, nil) {
			return nil
		}
		s.log.Warn("export closed", "path", x.Path, "error", err)
	}
	fsys, err := s.open(x)
	if err != nil {
		return err
	}
	if !s.put(x, fsys) {
		return fsys.Close()
	}
	x.measure(fsys, nil)
	s.log.Info("export", "path", x.Path, "mode", modeOf(&x.Export.Export), "authority", authority(fsys))
	return nil
}

// measure notes how full a file system is, unless err says that it cannot be used.
func (x *standing) measure(fsys backend.FS, err error) {
	var u backend.Usage
	if err == nil {
		u, err = fsys.Usage()
	}
	if err != nil {
		x.usage.Store(nil)
		return
	}
	x.usage.Store(&u)
}

// put notes what stands at the path of an export, and serves it. It returns false if that is exported no longer.
func (s *exportSet) put(x *standing, fsys backend.FS) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, served := x.FS, slices.Contains(s.list, x) && s.publish != nil
	if x.ended {
		return false
	}
	x.FS, x.Released = fsys, nil
	if fsys != nil && s.make == nil {
		x.Released = func() { go fsys.Close() } // it may have to wait for a disk
	}
	switch {
	case served:
		_ = s.tell() // the paths were good before
	case old != nil && s.make == nil:
		go old.Close() //nolint:errcheck // nothing was written
	}
	return true
}

// open opens what stands at the path of an export.
func (s *exportSet) open(x *standing) (backend.FS, error) {
	if s.make != nil {
		m := s.madeOf(x.Path)
		m.Lock()
		defer m.Unlock()
		if m.fs != nil {
			return m.fs, nil
		}
		var err error
		m.fs, err = s.make(x.Path)
		return m.fs, err
	}
	if err := s.check(&x.Export); err != nil {
		return nil, err
	}
	at := filepath.FromSlash(x.Path)
	switch st, err := os.Stat(at); {
	case errors.Is(err, os.ErrNotExist):
		if i := strings.LastIndexByte(x.Path, ','); i > 0 { // or it was to be an option
			return nil, fmt.Errorf("no such directory, and %q is no option of exports(5)", x.Path[i+1:])
		}
		return nil, errors.New("no such directory: make it first")
	case err != nil:
		return nil, bare(err)
	case !st.IsDir():
		return nil, errors.New("not a directory: name the directory to serve")
	}
	fsys, err := dir.New(at, &dir.Config{Key: s.key, FSID: x.FSID, Mountpoint: cmp.Or(x.Mountpoint, x.stood)})
	if err != nil {
		return nil, bare(err)
	}
	x.stood = fsys.Mountpoint()
	return fsys, nil
}

func (s *exportSet) madeOf(path string) *made {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = make(map[string]*made)
	}
	if s.made[path] == nil {
		s.made[path] = new(made)
	}
	return s.made[path]
}

// away returns the exports that cannot be used now, and why.
func (s *exportSet) away() (all []ops.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list {
		if since, err := x.alive.lost(); err != nil {
			all = append(all, ops.Problem{
				Export: x.Path, Error: err.Error(), Remedy: "look after the file system; clients wait until it is back", Since: since,
			})
		}
	}
	return all
}

// collect says of each export whether it can be used.
func (s *exportSet) collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list {
		ready := 1.0
		if _, err := x.alive.lost(); err != nil {
			ready = 0
		}
		gauge := func(name, help string, v float64) {
			d := prometheus.NewDesc(metricsPrefix+"export_"+name, help, nil, prometheus.Labels{"export": x.Path})
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
		}
		gauge("ready", "1 if the export can be used, 0 if not: /readyz says why.", ready)
		if u := x.usage.Load(); u != nil {
			gauge("size_octets", "Octets of the file system of the export.", float64(u.TotalBytes))
			gauge("avail_octets", "Octets of it that users may still write.", float64(u.AvailBytes))
			gauge("files", "Files that the file system of the export can have.", float64(u.TotalFiles))
			gauge("avail_files", "Files that users may still make in it.", float64(u.AvailFiles))
		}
	}
}

// close closes all of them, but one that does not answer: it would keep the process.
func (s *exportSet) close() error {
	if s.ctx == nil {
		return nil
	}
	s.stop()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []backend.FS
	for _, m := range s.made {
		if m.TryLock() { // else it hangs
			if m.fs != nil {
				all = append(all, m.fs)
			}
			m.Unlock()
		}
	}
	for _, x := range s.list {
		if x.ended = true; x.FS != nil && s.make == nil {
			all = append(all, x.FS)
		}
	}
	done := make(chan error, len(all))
	for _, fsys := range all {
		go func() { done <- fsys.Close() }()
	}
	var err error
	for timeout := time.After(checkTime); len(all) > 0; all = all[1:] {
		select {
		case cerr := <-done:
			err = errors.Join(err, cerr)
		case <-timeout:
			return errors.Join(err, fmt.Errorf("a file system has not answered in %v: what was not yet durable may be lost", checkTime))
		}
	}
	return err
}

// modesOf describes the options of each group of clients of an export, in words of exports(5).
func modesOf(e *server.Export) (groups []string) {
	for _, c := range e.Clients {
		who := slices.Clone(c.Names)
		for _, n := range c.Certs {
			who = append(who, "tls:"+n)
		}
		for _, n := range c.Nets {
			who = append(who, n.String())
		}
		if len(who) == 0 {
			who = []string{"everybody"}
		}
		own := server.Export{FS: e.FS, ReadOnly: c.ReadOnly, Squash: c.Squash, Secure: c.Secure, XprtSec: c.XprtSec, Sec: c.Sec, AnonUID: c.AnonUID, AnonGID: c.AnonGID}
		groups = append(groups, modeOf(&own)+" for "+strings.Join(who, " "))
	}
	return groups
}

// modeOf describes the options of an export, in a line: of many groups of clients, the first ones.
func modeOf(e *server.Export) string {
	const shown = 4
	if groups := modesOf(e); len(groups) > shown {
		return fmt.Sprintf("%s; and %d more", strings.Join(groups[:shown], "; "), len(groups)-shown)
	} else if len(groups) > 0 {
		return strings.Join(groups, "; ")
	}
	mode := "read-write"
	if e.ReadOnly {
		mode = "read-only"
	}
	if e.XprtSec != 0 {
		mode += ", xprtsec=" + e.XprtSec.String()
	}
	if len(e.Sec) > 0 {
		mode += ", sec=" + secName(e.Sec)
	}
	if e.FS != nil && !e.FS.Info().Owners {
		return mode
	}
	mode += ", " + e.Squash.String()
	if e.AnonUID != 0 {
		mode += fmt.Sprintf(", anonuid=%d", e.AnonUID)
	}
	if e.AnonGID != 0 {
		mode += fmt.Sprintf(", anongid=%d", e.AnonGID)
	}
	if !e.Secure {
		mode += ", insecure"
	}
	return mode
}
