package dir

import (
	"errors"
	"hash/maphash"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"time"

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
	file  *shared

	mu    sync.Mutex
	proof proof
}

// proof is the state of a file in which the kernel has let the caller open it.
type proof struct {
	mode, uid, gid uint32
	ctime          nfs3.Time
}

// proofOf returns the proof that a file with these attributes was open to the caller. A change within the
// same tick of the clock, which is at most 10 ms, leaves no trace in the ctime: so a file that has just
// changed proves nothing, and the kernel is asked again the next time.
func proofOf(a *nfs3.Attr) proof {
	const tick = 20 * time.Millisecond
	if age := time.Since(a.Ctime.Time()); age < tick {
		return proof{}
	}
	return proof{a.Mode, a.UID, a.GID, a.Ctime}
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
	st, err := n.alive(g.stat())
	if err != nil {
		return nil, false, err
	}
	file, excepted, err := n.openBy(g, write, &st.attr)
	if err != nil {
		return nil, false, err
	}
	o := f.newOpenFile(file, n.key, n.who, write)
	if !excepted {
		o.proof = proofOf(&st.attr)
	}
	// The owner may have changed since we looked: who was let in as the owner is looked at again.
	return f.files.add(fk, o, true), !excepted, nil
}

// newOpenFile takes file. It keeps a copy of who, which belongs to one call.
func (f *FS) newOpenFile(file *os.File, k key, who *caller.Identity, write bool) *openFile {
	if who != nil {
		own := *who
		own.Groups = append([]uint32(nil), who.Groups...)
		who = &own
	}
	return &openFile{f: file, fs: f, key: k, who: who, write: write, file: f.share.enter(k)}
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

// proven reports whether nothing has changed since the kernel has let the caller open the file: then it
// would do so again.
func (o *openFile) proven() (bool, error) {
	if o.who == nil && o.fs.sw != nil {
		return true, nil
	}
	st, err := o.fs.statFile(o.f)
	if err != nil {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.proof == proof{st.Mode, st.UID, st.GID, st.Ctime}, nil
}

// prove makes sure that the caller may still use a file that was open already.
func (n *file) prove(o *openFile) error {
	if ok, err := o.proven(); ok || err != nil {
		return err
	}
	a, err := n.fs.statFile(o.f)
	if err == nil {
		err = n.do(func() error { return n.may(o) })
	}
	if err == nil {
		o.mu.Lock()
		o.proof = proofOf(&a)
		o.mu.Unlock()
	}
	return status(err)
}

// may asks the kernel whether the caller may use an open file. It runs as the caller.
func (n *file) may(o *openFile) error {
	want := mayRead
	if o.write {
		want = mayWrite
	}
	err := accessFile(o.f, want)
	if !errors.Is(err, nfs3.ErrAcces) {
		return err
	}
	a, e := n.fs.statFile(o.f)
	if e != nil || n.owns(&a) || !o.write && accessFile(o.f, mayExec) == nil {
		return e
	}
	return err
}

// Open opens the file and leaves it open.
func (n *file) Open(write bool) error {
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

// writing runs fn, which changes the content of an open file, as the caller: so the kernel clears set-id
// bits, and keeps reserved blocks and quotas. There the question whether he may costs less than a look whether
// it must be asked, which after a write it must.
func (n *file) writing(o *openFile, fresh bool, fn func() error) error {
	return status(n.do(func() error {
		if !fresh {
			if err := n.may(o); err != nil {
				return err
			}
		}
		o.dirty.Store(true)
		return fn()
	}))
}

// shared is what all descriptors of a file have in common.
type shared struct {
	mu   sync.Mutex // one sync at a time
	refs int        // guarded by shares.mu
}

// shares has an entry for each open file.
type shares struct {
	mu sync.Mutex
	m  map[key]*shared
}

func (s *shares) enter(k key) *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[key]*shared)
	}
	x := s.m[k]
	if x == nil {
		x = &shared{}
		s.m[k] = x
	}
	x.refs++
	return x
}

func (s *shares) leave(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.m[k]; x != nil {
		if x.refs--; x.refs == 0 {
			delete(s.m, k)
		}
	}
}
