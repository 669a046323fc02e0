package dir

import (
	"container/list"
	"errors"
	"hash/maphash"
	"io"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// openFile is a regular file, opened by the kernel for one caller, to be read or to be written.
type openFile struct {
	f     *os.File
	fs    *FS
	key   key
	who   *caller.Identity // nil: this process
	write bool
	dirty atomic.Bool // written since the last sync
	file  *inode

	mu    shared.Mutex
	proof proof
}

// proof is the state of a file in which the kernel has let the caller open it. The zero proof is that of no file.
type proof struct {
	mode, uid, gid uint32
	fixed          bool
	changes        uint64    // that the kernel has reported
	ctime          nfs3.Time // of a file of whose changes the kernel does not report all
}

// recent reports whether another change may have the same ctime, because the clock of the file system, whose ticks
// are at most 10 ms, still shows it: then the ctime proves nothing.
func recent(ctime nfs3.Time) bool {
	const tick = 20 * time.Millisecond
	return time.Since(ctime.Time()) < tick
}

// proof is of a file of whose changes nothing is known.
func (st *stat) proof() proof {
	return proof{mode: st.attr.Mode, uid: st.attr.UID, gid: st.attr.GID, fixed: st.fixed, ctime: st.attr.Ctime}
}

// at returns the proof that a file was open to the caller after the changes that are reported, if they are. What was
// seen is younger than changes, and older than the answer of the kernel.
func (p proof) at(changes uint64, reported bool) proof {
	if reported {
		p.changes, p.ctime = changes+1, nfs3.Time{} // no zero proof
	}
	return p
}

// fileKey is what open files are cached by.
type fileKey struct {
	key   key
	uid   uint32
	gid   uint32
	rest  uint64 // of the groups; 0: this process
	write bool
}

var groupSeed = maphash.MakeSeed()

// fileKey returns the key of a file for a caller. Callers with different groups may have the same one.
func (f *FS) fileKey(k key, who *caller.Identity, write bool) fileKey {
	fk := fileKey{key: k, write: write}
	if who == nil || f.sw == nil {
		return fk
	}
	fk.uid, fk.gid, fk.rest = who.UID, who.GID, 1
	for _, g := range who.Groups {
		fk.rest = bits.RotateLeft64(fk.rest, 7) ^ maphash.Comparable(groupSeed, g) | 1
	}
	return fk
}

// forWho reports whether the file was opened for a caller.
func (o *openFile) forWho(who *caller.Identity) bool {
	if o.who == nil || who == nil || o.fs.sw == nil {
		return o.fs.sw == nil || o.who == nil && who == nil
	}
	return o.who.Equal(who)
}

// Close closes the file. If it has writes that were not synced, it syncs them first: the kernel
// reports the error of a write once per open file, and the verifier must then change.
func (o *openFile) Close() error {
	if o.dirty.Load() {
		_, _ = o.sync(syncData) // an error changes the verifier
	}
	o.fs.share.leave(o.key)
	return o.f.Close()
}

// openFile opens the regular file n for the caller, ErrInval if n is of another kind, and reports whether
// the kernel has let him just now, so that it need not be asked again. The caller puts the slot back.
func (n *file) openFile(write bool) (s *slot[fileKey, *openFile], fresh bool, err error) {
	f := n.fs
	if n.typ != nfs3.TypeReg {
		return nil, false, nfs3.ErrInval
	}
	fk := f.fileKey(n.key, n.who, write)
	if s := f.files.get(fk); s != nil {
		if s.v.forWho(n.who) {
			return s, false, nil
		}
		f.files.put(s)
	}
	g, err := n.hold()
	if err != nil {
		return nil, false, err
	}
	defer g.done()
	sh := f.share.enter(n.key, g.descriptor())
	changes, reported := f.share.watch.changes(sh)
	st, err := n.alive(g.stat())
	var file *os.File
	excepted := false
	if err == nil {
		file, excepted, err = n.openBy(g, write, &st.attr)
	}
	if err != nil {
		f.share.leave(n.key)
		return nil, false, err
	}
	o := f.newOpenFile(file, n.key, n.who, write, sh)
	if !excepted {
		o.note(st.proof().at(changes, reported))
	}
	// The owner may have changed since we looked: who was let in as the owner is looked at again.
	return f.files.add(fk, o, true), !excepted, nil
}

// newOpenFile takes file and sh. It keeps a copy of who, which belongs to one call.
func (f *FS) newOpenFile(file *os.File, k key, who *caller.Identity, write bool, sh *inode) *openFile {
	if who != nil {
		own := *who
		own.Groups = append([]uint32(nil), who.Groups...)
		who = &own
	}
	return &openFile{f: file, fs: f, key: k, who: who, write: write, file: sh}
}

// openBy opens n as the caller. NFS has no open files, so it makes two exceptions, which RFC 1813 Section
// 4.4 explains: the owner, who may have opened the file before its mode changed, and whoever may run it.
func (n *file) openBy(g gripRef, write bool, a *nfs3.Attr) (file *os.File, excepted bool, err error) {
	open := func() (err error) { file, err = g.openFile(write); return err }
	err = n.do(func() error {
		err := open()
		if errors.Is(status(err), nfs3.ErrAcces) && !write && !n.owns(a) && g.access(mayExec) == nil {
			return errRunner
		}
		return err
	})
	if errors.Is(err, errRunner) || errors.Is(status(err), nfs3.ErrAcces) && n.owns(a) {
		excepted = true
		err = n.override(open)
	}
	return file, excepted, status(err)
}

// errRunner means that the caller may run a file that he may not read.
const errRunner = moved("dir: the caller may run the file")

// note notes that the kernel has let the caller use the file.
func (o *openFile) note(p proof) {
	if p.changes == 0 && recent(p.ctime) {
		p = proof{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.proof = p
}

// proven returns the state of the file, and whether nothing has changed since the kernel has let the caller open it:
// then it would do so again.
func (n *file) proven(o *openFile) (now proof, ok bool, err error) {
	found, has := n.take()
	changes, reported := o.fs.share.watch.changes(o.file)
	if reported && has {
		// A look at the file that the same call has just had saves another, a fortieth of a WRITE of 64 KiB: what has
		// changed since is among the changes, but for the flags of chattr(1), which Linux also looks at only when a file
		// is opened.
		now = found.at(changes, reported)
		if o.proven() == now {
			return now, true, nil
		}
	}
	if reported && !o.write { // the flags of chattr(1) are not reported, and do not keep anybody from reading
		if now = o.proven(); now.changes == changes+1 {
			return now, true, nil
		}
	}
	st, err := o.fs.statFile(o.f)
	if err != nil {
		return now, false, err
	}
	now = st.proof().at(changes, reported)
	return now, o.proven() == now, nil
}

// proven returns what note has noted.
func (o *openFile) proven() proof {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.proof
}

// prove makes sure that the caller may still use a file that was open already.
func (n *file) prove(o *openFile) error {
	if o.who == nil && o.fs.sw != nil {
		return nil
	}
	now, ok, err := n.proven(o)
	if ok || err != nil {
		return err
	}
	if err := n.do(func() error { return n.may(o, now) }); err != nil {
		return status(err)
	}
	o.note(now)
	return nil
}

// may asks the kernel whether the caller may use an open file that is in a state now. It runs as the caller.
func (n *file) may(o *openFile, now proof) error {
	want := mayRead
	if o.write {
		if now.fixed {
			return nfs3.ErrPerm // access(2) does not tell of chattr +a, under which nothing may be overwritten: open(2) does
		}
		want = mayWrite
	}
	err := accessFile(o.f, want)
	if !errors.Is(err, nfs3.ErrAcces) {
		return err
	}
	st, e := n.fs.statFile(o.f)
	if e != nil || n.owns(&st.attr) || !o.write && accessFile(o.f, mayExec) == nil {
		return e
	}
	return err
}

// Open opens the file and leaves it open.
func (n *file) Open(write bool, _ uint64, _ int) error {
	s, fresh, err := n.openFile(write)
	if err != nil {
		return err
	}
	defer n.fs.files.put(s)
	if fresh {
		return nil
	}
	return n.prove(s.v)
}

// setIDs are the bits of the mode that a write clears.
const setIDs = 0o6000

// writing runs fn, which changes the content of an open file, as the caller: so the kernel clears set-id
// bits, and keeps reserved blocks and quotas. A switch of uid, gid and groups costs as much as to write 16 KiB, so what
// does not count is not switched (doWrite). Groups count for set-id bits, and on a file system of which nothing is known,
// as one whose changes are not reported: FUSE passes them on.
func (n *file) writing(o *openFile, fresh bool, fn func() error) error {
	now, ok, err := n.proven(o)
	if err != nil {
		return err
	}
	as := n.do
	if known := now.changes != 0; known && (ok || fresh) && now.mode&setIDs == 0 {
		as = n.doWrite
	}
	err = as(func() error {
		if !ok && !fresh {
			if err := n.may(o, now); err != nil {
				return err
			}
		}
		o.dirty.Store(true)
		return fn()
	})
	if !ok && !fresh && err == nil && now.changes != 0 {
		o.note(now) // what fn has changed is not among the changes that are reported
	}
	return status(err)
}

// inode is what all descriptors of a file have in common.
type inode struct {
	mu   sync.Mutex // one sync at a time
	refs int        // guarded by shares.mu
	watched
}

// shares has an entry for each open file.
type shares struct {
	watch watcher

	mu sync.Mutex
	m  map[key]*inode
}

// enter returns the entry of a file. It is watched if fd, which holds it, is not -1.
func (s *shares) enter(k key, fd int) *inode {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[key]*inode)
	}
	x := s.m[k]
	if x == nil {
		x = &inode{}
		s.m[k] = x
	}
	x.refs++
	s.watch.add(x, fd)
	return x
}

func (s *shares) leave(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.m[k]; x != nil {
		if x.refs--; x.refs == 0 {
			s.watch.remove(x)
			delete(s.m, k)
		}
	}
}

// Read reads straight into p.
func (n *file) Read(p []byte, off uint64) (int, error) {
	s, fresh, err := n.openFile(false)
	if err != nil {
		return 0, err
	}
	defer n.fs.files.put(s)
	if !fresh {
		if err := n.prove(s.v); err != nil {
			return 0, err
		}
	}
	if off > 1<<63-1 {
		return 0, nil
	}
	got, err := n.fs.quick.ReadAt(s.v.f, p, int64(off))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, status(err)
}

// Write writes straight from p. If some octets were written before an error, it reports those:
// the client sends the rest again and gets the error then.
func (n *file) Write(p []byte, off uint64, how nfs3.StableHow) (backend.WriteResult, error) {
	var res backend.WriteResult
	if n.typ != nfs3.TypeReg {
		return res, nfs3.ErrInval
	}
	if off > n.fs.limit || uint64(len(p)) > n.fs.limit-off {
		return res, nfs3.ErrFBig
	}
	s, fresh, err := n.openFile(true)
	if err != nil {
		return res, err
	}
	defer n.fs.files.put(s)
	// Taken before the write: if a sync fails meanwhile, these octets may be lost with the
	// others, and the client must not get the verifier from after that.
	res.Verf = n.fs.writeVerf()
	err = n.writing(s.v, fresh, func() (err error) {
		res.N, err = n.fs.quick.WriteAt(s.v.f, p, int64(off))
		return err
	})
	if err != nil && res.N == 0 {
		return res, err
	}
	err = nil
	res.Committed = how
	switch how {
	case nfs3.DataSync:
		_, err = s.v.sync(syncData)
	case nfs3.FileSync:
		_, err = s.v.sync(syncAll)
	case nfs3.Unstable:
	}
	return res, err
}

// Commit syncs the whole file, which covers any range of it. Whoever may read or write a file may sync it.
func (n *file) Commit(uint64, uint32) (nfs3.WriteVerf, error) {
	s, _, err := n.openFile(true)
	if refused(err) {
		s, _, err = n.openFile(false)
	}
	if err != nil {
		return nfs3.WriteVerf{}, err
	}
	defer n.fs.files.put(s)
	return s.v.sync(syncAll)
}

// cache keeps open things by identity: at most max, unless more are in use, and none that was
// idle for ttl, most only half as long. It closes first what was not used again since it came, outside its
// lock. It is safe for concurrent use.
//
// Every call of a client gets and puts a thing or two, so all of them meet at the lock: a get marks its slot
// instead of moving it, excess looks at the marks (as the CLOCK of page caches), and a put takes no lock.
type cache[K comparable, V io.Closer] struct {
	max int
	ttl time.Duration // 0: forever

	full  atomic.Bool // there are more than max
	mu    shared.Mutex
	m     map[K]*slot[K, V]
	order list.List // of *slot[K, V], the last one goes first
	timer *time.Timer
}

// slot is a thing in use by refs callers. Who takes it out of the cache, or ends its last use after that,
// closes it: out is set before refs is looked at, and refs falls before out is looked at, so one of them sees
// both.
type slot[K comparable, V io.Closer] struct {
	v      V
	key    K
	refs   atomic.Int32 // grows with the lock only, and only while the slot is in the cache
	out    atomic.Bool
	closed atomic.Bool
	used   bool // since it came, or since excess has looked
	idle   bool // since the last sweep
	elem   *list.Element
}

// over reports whether the caller must close the thing.
func (s *slot[K, V]) over() bool {
	return s.out.Load() && s.refs.Load() == 0 && s.closed.CompareAndSwap(false, true)
}

// get returns the slot of k, in use until put, or nil.
func (c *cache[K, V]) get(k K) *slot[K, V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.m[k]
	if s != nil {
		s.refs.Add(1)
		s.used, s.idle = true, false
	}
	return s
}

// add takes v as the thing of k. If there is one already, it closes v, or the old one if replace.
func (c *cache[K, V]) add(k K, v V, replace bool) *slot[K, V] {
	var dead []V
	defer func() { closeAll(dead...) }() // without the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.m[k]; s != nil && !replace {
		s.refs.Add(1)
		s.used, s.idle = true, false
		dead = append(dead, v)
		return s
	} else if s != nil {
		if v, ok := c.remove(s); ok {
			dead = append(dead, v)
		}
	}
	s := &slot[K, V]{v: v, key: k}
	s.refs.Store(1)
	if c.m == nil {
		c.m = make(map[K]*slot[K, V])
	}
	s.elem = c.order.PushFront(s)
	c.m[k] = s
	if c.timer == nil && c.ttl > 0 {
		c.timer = time.AfterFunc(c.ttl/2, c.sweep)
	}
	dead = append(dead, c.excess()...)
	return s
}

// put ends the use of a slot.
func (c *cache[K, V]) put(s *slot[K, V]) {
	s.refs.Add(-1)
	if s.over() {
		_ = s.v.Close()
	}
	if !c.full.Load() {
		return
	}
	var dead []V
	c.mu.With(func() { dead = c.excess() })
	closeAll(dead...)
}

// drop takes k out and closes its thing, as soon as nobody uses it.
func (c *cache[K, V]) drop(k K) {
	var dead V
	ok := false
	c.mu.With(func() {
		if s := c.m[k]; s != nil {
			dead, ok = c.remove(s)
		}
	})
	if ok {
		_ = dead.Close()
	}
}

// dropIf is drop for all things of which fn says so.
func (c *cache[K, V]) dropIf(fn func(K, V) bool) {
	var dead []V
	defer func() { closeAll(dead...) }()
	c.mu.Lock()
	defer c.mu.Unlock() // fn may panic
	for k, s := range c.m {
		if fn(k, s.v) {
			if v, ok := c.remove(s); ok {
				dead = append(dead, v)
			}
		}
	}
}

// remove takes a slot out, and returns its thing if the caller must close it now.
func (c *cache[K, V]) remove(s *slot[K, V]) (dead V, ok bool) {
	delete(c.m, s.key)
	c.order.Remove(s.elem)
	s.out.Store(true)
	return s.v, s.over()
}

// excess takes out what exceeds max. What was used since it came, or since the last look, gets a second chance.
func (c *cache[K, V]) excess() (dead []V) {
	for n := 2 * c.order.Len(); n > 0 && len(c.m) > c.max; n-- {
		s := c.order.Back().Value.(*slot[K, V])
		if s.used || s.refs.Load() > 0 {
			s.used = false
			c.order.MoveToFront(s.elem)
			continue
		}
		if v, ok := c.remove(s); ok {
			dead = append(dead, v)
		}
	}
	c.full.Store(len(c.m) > c.max)
	return dead
}

// giveWay closes half of the things that nobody uses, those first that excess would, and returns how many.
func (c *cache[K, V]) giveWay() int {
	var dead []V
	defer func() { closeAll(dead...) }() // without the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	for e, most := c.order.Back(), (len(c.m)+1)/2; e != nil && len(dead) < most; {
		s := e.Value.(*slot[K, V])
		e = e.Prev()
		if s.refs.Load() > 0 {
			continue
		}
		if v, ok := c.remove(s); ok {
			dead = append(dead, v)
		}
	}
	return len(dead)
}

// sweep closes what nobody has used since the last one, and runs again later while anything is left. A mark
// instead of a time: the clock was a twentieth of a GETATTR.
func (c *cache[K, V]) sweep() {
	var dead []V
	defer func() { closeAll(dead...) }() // without the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Back(); e != nil; {
		s := e.Value.(*slot[K, V])
		e = e.Prev()
		if s.refs.Load() > 0 {
			continue
		}
		if s.idle {
			if v, ok := c.remove(s); ok {
				dead = append(dead, v)
			}
		}
		s.idle = true
	}
	if c.timer != nil {
		if len(c.m) > 0 {
			c.timer.Reset(c.ttl / 2)
		} else {
			c.timer = nil
		}
	}
}

// clear closes everything, things in use as soon as nobody uses them.
func (c *cache[K, V]) clear() {
	var dead []V
	defer func() { closeAll(dead...) }() // without the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	for _, s := range c.m {
		if v, ok := c.remove(s); ok {
			dead = append(dead, v)
		}
	}
}

func closeAll[V io.Closer](dead ...V) {
	for _, v := range dead {
		_ = v.Close() // Close itself reports what it finds
	}
}

// syncOp is a kind of sync.
type syncOp int

const (
	syncData  syncOp = iota + 1 // fdatasync of a file: data, and the metadata needed to read them
	syncAll                     // fsync of a file
	syncNames                   // fsync of a directory or of a file whose attributes changed
)

// sync makes the file durable and returns the write verifier that covers what was written
// before. Only one sync of a file runs at a time: the kernel reports an error of the writes
// once, and the verifier must have changed before a later sync can report success.
func (o *openFile) sync(op syncOp) (nfs3.WriteVerf, error) {
	o.file.mu.Lock()
	defer o.file.mu.Unlock()
	o.dirty.Store(false)
	if err := o.fs.doSync(o.f, op); err != nil {
		o.fs.newVerf()
		return nfs3.WriteVerf{}, nfs3.ErrIO
	}
	return o.fs.writeVerf(), nil
}

// doSync is the one place that syncs.
func (f *FS) doSync(file *os.File, op syncOp) error {
	if f.syncErr != nil {
		if err := f.syncErr(op); err != nil {
			return err
		}
	}
	if op == syncData {
		return datasync(file)
	}
	return file.Sync()
}

// settle makes a change of names in these directories durable.
func (f *FS) settle(dirs ...gripRef) error {
	if f.cfg.Async {
		return nil
	}
	for i, d := range dirs {
		if i > 0 && d.grip == dirs[0].grip {
			continue
		}
		if err := f.syncDir(d); err != nil {
			return status(err)
		}
	}
	return nil
}

// syncDir syncs a directory, or, if this process may not read it, the root: on journaling file systems
// that includes all changes of names and attributes before it.
func (f *FS) syncDir(d gripRef) error {
	file, err := d.syncFile()
	if errors.Is(status(err), nfs3.ErrAcces) {
		file, err = f.top.syncFile()
	}
	if err != nil {
		return err
	}
	return f.doSync(file, syncNames)
}

// settleAttr makes a change of n's attributes durable. If the file cannot be opened, because of its kind
// or permissions, the sync of the root must do.
func (n *node) settleAttr() error {
	f := n.fs
	if f.cfg.Async {
		return nil
	}
	g, err := n.hold()
	if err != nil {
		return err
	}
	defer g.done()
	switch n.typ {
	case nfs3.TypeDir:
		return status(f.syncDir(g))
	case nfs3.TypeReg:
		file, err := g.openFile(false)
		if err != nil {
			break
		}
		defer file.Close()
		sh := f.share.enter(n.key, -1)
		defer f.share.leave(n.key)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if err := f.doSync(file, syncNames); err != nil {
			f.newVerf()
			return status(err)
		}
		return nil
	case nfs3.TypeBlk, nfs3.TypeChr, nfs3.TypeLnk, nfs3.TypeSock, nfs3.TypeFIFO:
	}
	return f.settle(gripRef{grip: f.top})
}
