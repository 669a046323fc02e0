package region

import (
	"sync"
	"unsafe"
)

// In builds with the race detector, memory that operations of peers may touch at once is accessed like Guarded
// memory, by copies that the detector does not see. Other builds have none of this: RaceDetector
// is a constant. All other memory stays visible to the detector, so that it still finds an owner who uses his
// memory too early.

// changes are the rights by which peers change memory, touches those by which they look at it too.
const (
	changes = RemoteWrite | Atomic
	touches = changes | RemoteRead | Verify | FlushPersistent
)

// contended reports whether operations with these rights, under as many registrations, may meet: a stream
// executes a request while it places what comes next.
func contended(a Access, registrations int) bool {
	a &= touches
	return a&changes != 0 && (registrations > 1 || a&(a-1) != 0)
}

// uses are the registrations of one memory.
type uses struct {
	n      int
	access Access
	meet   bool // their operations may; see readUnseen
}

// registered has the memory in use by its first octet, in builds with the race detector.
var registered = struct {
	mu sync.Mutex
	by map[*byte]*uses
}{by: make(map[*byte]*uses)}

// enlist counts a registration of data.
func enlist(data []byte, access Access, shared bool) *uses {
	registered.mu.Lock()
	defer registered.mu.Unlock()
	p := unsafe.SliceData(data)
	u := registered.by[p]
	if u == nil {
		u = new(uses)
		registered.by[p] = u
	}
	u.n++
	u.access |= access
	n := u.n
	if shared { // it stands for several
		n++
	}
	if contended(u.access, n) {
		setUnseen(&u.meet)
	}
	return u
}

// strike is called once for each enlist.
func strike(data []byte) {
	registered.mu.Lock()
	defer registered.mu.Unlock()
	p := unsafe.SliceData(data)
	u := registered.by[p]
	if u.n--; u.n == 0 {
		delete(registered.by, p)
	}
}

// guarded returns the memory if it may be accessed by its methods alone, otherwise nil.
func (e *entry) guarded() Guarded {
	if RaceDetector && e.guard == nil && e.uses != nil && readUnseen(&e.uses.meet) {
		return unseen(e.data)
	}
	return e.guard
}

// unseen is memory as the detector does not see it.
type unseen []byte

func (u unseen) Bytes() []byte            { return u }
func (u unseen) Persist(off, n int) error { return Bytes(u).Persist(off, n) }
func (u unseen) Close() error             { return nil }

func (u unseen) Store(off int, p []byte) error {
	CopyUnseen(u[off:off+len(p)], p)
	return nil
}

func (u unseen) Load(p []byte, off int) error {
	CopyUnseen(p, u[off:off+len(p)])
	return nil
}

// Guard runs f, which uses atomic operations; hashes are taken of a copy.
func (u unseen) Guard(_, _ int, f func() error) error { return f() }
