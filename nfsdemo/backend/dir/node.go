package dir

import (
	"container/list"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
	"sync"

	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// file is a file as a caller sees it.
type file struct {
	*node
	who *caller.Identity // nil: this process

	mu    shared.Mutex
	found proof // by Attr, for the Open or Write that follows: all of a stat would make each call allocate 200 octets more, twice
	has   bool
}

var _ backend.Node = (*file)(nil)

// As returns the file as who sees it.
func (n *file) As(who *caller.Identity) backend.Node { return &file{node: n.node, who: who} }

// with returns another file as the same caller sees it.
func (n *file) with(c *node) *file {
	if c == n.node {
		return n
	}
	return &file{node: c, who: n.who}
}

// do runs system calls as the caller. Whatever waits for other goroutines stays outside.
func (n *file) do(fn func() error) error {
	if n.who == nil || n.fs.sw == nil {
		return fn()
	}
	return n.fs.sw.Do(n.who, fn)
}

// doWrite is do for a write to a file that the kernel has let the caller open: what is left to decide goes by the uid,
// where the file system keeps blocks for one, and by the capability to exceed quotas.
func (n *file) doWrite(fn func() error) error {
	switch {
	case n.who == nil || n.fs.sw == nil:
		return fn()
	case n.fs.noReserve:
		return n.fs.sw.Limited(n.who, fn)
	}
	return n.fs.sw.DoUser(n.who, fn)
}

// override is do for a caller whom the mode of the file does not stop.
func (n *file) override(fn func() error) error {
	if n.who == nil || n.fs.sw == nil {
		return fn()
	}
	return n.fs.sw.Override(n.who, fn)
}

// owns reports whether the caller is the owner of a file, as far as NFS makes exceptions for owners.
func (n *file) owns(a *nfs3.Attr) bool {
	if n.who == nil || n.fs.sw == nil {
		return a.UID == n.fs.Info().UID
	}
	return a.UID == n.who.UID
}

// super reports whether the caller is root.
func (n *file) super() bool { return n.fs.sw != nil && (n.who == nil || n.who.UID == 0) }

// AppendHandle appends the handle.
func (n *node) AppendHandle(b []byte) []byte { return n.fs.seal.append(b, &n.key) }

func (n *node) look() (stat, error) {
	g, err := n.hold()
	if err != nil {
		return stat{}, err
	}
	defer g.done()
	return n.alive(g.stat())
}

// Attr asks the kernel. It needs no permission.
func (n *file) Attr() (nfs3.Attr, error) {
	st, err := n.node.look()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.found, n.has = st.proof(), err == nil
	return st.attr, err
}

// take returns what Attr has found, once.
func (n *file) take() (found proof, has bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found, has, n.has = n.found, n.has, false
	return found, has
}

// alive returns ErrStale for a file that has lost its last name, and lets go of it.
func (n *node) alive(st stat, err error) (stat, error) {
	if err == nil && st.attr.Nlink == 0 {
		n.fs.gone(n.key)
		return stat{}, nfs3.ErrStale
	}
	return st, err
}

// Access asks the kernel, as the caller.
func (n *file) Access(want nfs3.Access) (got nfs3.Access, err error) {
	g, err := n.hold()
	if err != nil {
		return 0, err
	}
	defer g.done()
	search := nfs3.AccessExecute
	change := nfs3.AccessModify | nfs3.AccessExtend
	if n.typ == nfs3.TypeDir {
		search = nfs3.AccessLookup
		change |= nfs3.AccessDelete
	}
	st, err := n.alive(g.stat())
	if err != nil {
		return 0, err
	}
	const all = mayRead | mayWrite | mayExec
	has, known := n.known(&st.attr, all)
	if !known {
		has = 0
		err = n.do(func() error {
			for _, right := range [...]uint32{mayRead, mayWrite, mayExec} {
				err := g.access(right)
				if err == nil {
					has |= right
				} else if !refused(err) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, status(err)
		}
		n.learn(&st.attr, all, has)
	}
	if has&mayRead != 0 {
		got |= nfs3.AccessRead
	}
	if has&mayWrite != 0 {
		got |= change
	}
	if has&mayExec != 0 {
		got |= search
	}
	return got & want, nil
}

// refused reports whether an error says that a right is missing.
func refused(err error) bool {
	return errors.Is(err, nfs3.ErrAcces) || errors.Is(err, nfs3.ErrPerm) || errors.Is(err, nfs3.ErrROFS)
}

// Rights of access(2).
const (
	mayExec  uint32 = 1
	mayWrite uint32 = 2
	mayRead  uint32 = 4
)

// SetAttr changes attributes as the caller. It refuses at once what needs the owner, so that a change of
// size is not made without the rest.
func (n *file) SetAttr(a *nfs3.SetAttr) error {
	g, err := n.hold()
	if err != nil {
		return err
	}
	defer g.done()
	st, err := n.alive(g.stat())
	if err != nil {
		return err
	}
	if a.SetSize {
		if a.SetMode || a.SetUID || a.SetGID || a.AtimeHow == nfs3.ClientTime || a.MtimeHow == nfs3.ClientTime {
			if !n.owns(&st.attr) && !n.super() {
				return nfs3.ErrPerm
			}
		}
		if err := n.truncate(a.Size); err != nil {
			return err
		}
	}
	if err := n.do(func() error { return g.set(a) }); err != nil {
		return status(err)
	}
	return n.settleAttr()
}

// truncate sets the size.
func (n *file) truncate(size uint64) error {
	switch {
	case n.typ == nfs3.TypeDir:
		return nfs3.ErrIsDir
	case size > n.fs.limit:
		return nfs3.ErrFBig
	}
	s, fresh, err := n.openFile(true)
	if err != nil {
		return err
	}
	defer n.fs.files.put(s)
	return n.writing(s.v, fresh, func() error { return n.fs.quick.Truncate(s.v.f, int64(size)) })
}

// ReadLink returns the target.
func (n *node) ReadLink() (string, error) {
	if n.typ != nfs3.TypeLnk {
		return "", nfs3.ErrInval
	}
	g, err := n.hold()
	if err != nil {
		return "", err
	}
	defer g.done()
	target, err := g.readLink()
	return target, status(err)
}

// node is a file of any kind that has been seen. The caches of descriptors are keyed by key, not
// by node, so two nodes with the same key do no harm.
type node struct {
	fs  *FS
	key key
	typ nfs3.FileType // never changes

	// guarded by table.mu
	places []place       // where it was seen, the latest first; none for the root
	kids   int           // places of other nodes that are in this directory
	elem   *list.Element // nil once out of the table
}

// place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// maxPlaces limits the names that are remembered of a file with many links.
const maxPlaces = 8

// table remembers at most max nodes, and beyond that the directories of nodes in the table.
type table struct {
	max int

	mu    shared.Mutex
	m     map[key]*node
	order list.List // of *node, most recent first
}

// get returns the node of k, or nil.
func (t *table) get(k key) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.m[k]
	if n != nil && n.elem != nil {
		t.order.MoveToFront(n.elem)
	}
	return n
}

// enter notes that a file was seen at a place, and returns its node.
func (t *table) enter(f *FS, p place, st *stat) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.m[st.key]
	if n == nil {
		n = f.newNode(st)
		t.m[st.key] = n
		n.elem = t.order.PushFront(n)
	} else if n.elem != nil {
		t.order.MoveToFront(n.elem)
	}
	if p.dir != nil && n != f.root {
		n.addPlace(p)
	}
	t.evict()
	return n
}

// addPlace puts p first in the places.
func (n *node) addPlace(p place) {
	if len(n.places) > 0 && n.places[0] == p {
		return
	}
	if i := slices.Index(n.places, p); i >= 0 {
		n.places = slices.Delete(n.places, i, i+1)
	} else {
		p.dir.kids++
	}
	n.places = slices.Insert(n.places, 0, p)
	if n.typ == nfs3.TypeDir || len(n.places) > maxPlaces {
		// A directory has one name.
		keep := 1
		if n.typ != nfs3.TypeDir {
			keep = maxPlaces
		}
		for _, old := range n.places[keep:] {
			old.dir.kids--
		}
		n.places = n.places[:keep]
	}
}

// newNode makes a node that is not in the table.
func (f *FS) newNode(st *stat) *node {
	return &node{fs: f, key: st.key, typ: st.attr.Type}
}

// move notes that a file has another name.
func (t *table) move(n *node, from, to place) {
	t.mu.With(func() {
		if t.m[n.key] == n && n.elem != nil {
			n.addPlace(to)
		}
	})
	t.leave(n, from)
}

// leave notes that a file is no longer at a place.
func (t *table) leave(n *node, p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(n.places, p); i >= 0 {
		n.places = slices.Delete(n.places, i, i+1)
		if n.elem != nil {
			p.dir.kids--
		}
	}
}

// remove forgets a file that is gone.
func (t *table) remove(k key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.m[k]; n != nil && n.elem != nil {
		t.forget(n)
	}
}

// forget takes n out of the table. It keeps its places for callers that still use it.
func (t *table) forget(n *node) {
	for _, p := range n.places {
		p.dir.kids--
	}
	delete(t.m, n.key)
	t.order.Remove(n.elem)
	n.elem = nil
}

// evict forgets the files that were not seen for the longest time. It looks at a few more than
// it needs, because directories in use stay.
func (t *table) evict() {
	const look = 16
	e := t.order.Back()
	for i := 0; i < look && e != nil && len(t.m) > t.max; i++ {
		n := e.Value.(*node)
		e = e.Prev()
		if n.kids == 0 {
			t.forget(n)
		} else {
			t.order.MoveToFront(n.elem)
		}
	}
}

// placesOf returns a copy of the places of n.
func (t *table) placesOf(n *node) []place {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(n.places)
}

// parentOf returns the directory in which n was last seen; for the root, the root itself.
func (t *table) parentOf(n *node) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(n.places) == 0 {
		return n
	}
	return n.places[0].dir
}

// Handle layout: version 1, kind 1, identity, seal 8.
const (
	handleVersion = 2
	handleHead    = 2
	sealSize      = 8
	keySize       = 32 // of Config.Key, at least
	maxID         = backend.MaxHandle - handleHead - sealSize
)

// kindOwn is the kind of an identity that is made of device, inode number and birth time, 8 octets each.
// All other kinds are those of the file system's own handles, which are below (Linux, enum fid_type).
const (
	kindOwn = 0xff
	ownSize = 24
)

// key is the identity of a file for the lifetime of the file system.
type key struct {
	kind, n uint8
	id      [maxID]byte // n octets, then zeros
}

// ownKey makes an identity of kindOwn. dev is 0 for that of the export's root, whose number may change at
// boot; birth is in ns since 1970, 0 if unknown.
func ownKey(dev, ino uint64, birth int64) key {
	k := key{kind: kindOwn, n: ownSize}
	binary.BigEndian.PutUint64(k.id[:], dev)
	binary.BigEndian.PutUint64(k.id[8:], ino)
	binary.BigEndian.PutUint64(k.id[16:], uint64(birth))
	return k
}

// ino returns the inode number in an identity of kindOwn.
func (k *key) ino() uint64 { return binary.BigEndian.Uint64(k.id[8:]) }

// newKey makes an identity of another kind; ok is false if it does not fit.
func newKey(kind int32, id []byte) (k key, ok bool) {
	if kind < 0 || kind >= kindOwn || len(id) > maxID {
		return k, false
	}
	k.kind, k.n = uint8(kind), uint8(len(id))
	copy(k.id[:], id)
	return k, true
}

// stat is the result of one stat call.
type stat struct {
	key   key
	birth int64 // ns since 1970, 0 if unknown
	attr  nfs3.Attr
	fixed bool // immutable or append-only (chattr(1)), which the mode does not show
}

// sealer makes handles of identities. Nobody else can make them, and those of other exports have other
// keys. It is safe for concurrent use.
type sealer struct{ pool sync.Pool }

// mac is an HMAC, with room for its sum.
type mac struct {
	h   hash.Hash
	sum [sha256.Size]byte
}

// newSealer derives the key of the directory path on a file system from a secret. The identity of the file system is
// in the key and not in the handles, where there is no room for it, with that of the directory.
func newSealer(secret []byte, path string, fs []byte) *sealer {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(path))
	h.Write([]byte{0}) // no path has one
	h.Write(fs)
	own := h.Sum(nil)
	s := &sealer{}
	s.pool.New = func() any { return &mac{h: hmac.New(sha256.New, own)} }
	return s
}

// append appends the handle of k.
func (s *sealer) append(b []byte, k *key) []byte {
	at := len(b)
	b = append(b, handleVersion, k.kind)
	b = append(b, k.id[:k.n]...)
	m := s.pool.Get().(*mac)
	defer s.pool.Put(m)
	return append(b, m.of(b[at:])...)
}

// of returns the seal of b.
func (m *mac) of(b []byte) []byte {
	m.h.Reset()
	m.h.Write(b)
	return m.h.Sum(m.sum[:0])[:sealSize]
}

// parse returns the identity in a handle. What cannot be a handle is ErrBadHandle; a handle with a wrong seal
// is ErrStale, like that of a file that is gone, so that nobody learns anything from trying.
func (s *sealer) parse(h []byte) (k key, err error) {
	if len(h) <= handleHead+sealSize || len(h) > backend.MaxHandle || h[0] != handleVersion {
		return k, nfs3.ErrBadHandle
	}
	body, seal := h[:len(h)-sealSize], h[len(h)-sealSize:]
	m := s.pool.Get().(*mac)
	defer s.pool.Put(m)
	if subtle.ConstantTimeCompare(m.of(body), seal) != 1 {
		return k, nfs3.ErrStale
	}
	k.kind, k.n = body[1], uint8(len(body)-handleHead)
	copy(k.id[:], body[handleHead:])
	if k.kind == kindOwn && k.n != ownSize {
		return key{}, nfs3.ErrBadHandle
	}
	return k, nil
}

// Whether to search for a file that has moved, on behalf of nobody: it has been where it was when its handle was
// resolved. The search itself must not do so.
const (
	mayFind  = true
	onlyLook = false
)

// at calls fn with the directory and the name where n is now. It forgets places that turn out
// to be wrong; if none is left, it searches for n if find says so.
func (n *node) at(find bool, fn func(d gripRef, name string, st *stat) error) error {
	for round := 0; ; round++ {
		for _, p := range n.fs.tab.placesOf(n) {
			err := n.try(p, find, fn)
			if !errors.Is(err, errMoved) {
				return err
			}
			n.fs.tab.leave(n, p)
		}
		if round == 2 || n == n.fs.root || !find {
			return nfs3.ErrStale
		}
		if err := n.fs.lost.find(nil, n.key); err != nil {
			return err
		}
		if found := n.fs.tab.get(n.key); found != nil {
			n = found
		}
	}
}

// errMoved means that a file is not where it was.
const errMoved = moved("dir: file is not where it was")

type moved string

func (m moved) Error() string { return string(m) }

// try calls fn if n is at p.
func (n *node) try(p place, find bool, fn func(d gripRef, name string, st *stat) error) error {
	d, err := p.dir.openPlace(find)
	if errors.Is(err, nfs3.ErrStale) {
		return errMoved
	}
	if err != nil {
		return err
	}
	defer d.done()
	st, err := n.fs.statAt(d, p.name)
	switch {
	case errors.Is(err, nfs3.ErrNoEnt) || err == nil && st.key != n.key:
		return errMoved
	case err != nil:
		return err
	}
	return fn(d, p.name, &st)
}

// inPlace reports whether n is where it was seen, as far as can be told without a search.
func (n *node) inPlace() bool {
	g, err := n.holdBy(onlyLook)
	if err == nil {
		g.done()
	}
	return !errors.Is(err, nfs3.ErrStale)
}
