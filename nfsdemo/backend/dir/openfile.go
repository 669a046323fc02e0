package dir

import (
	"errors"
	"hash/maphash"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/shared"
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
