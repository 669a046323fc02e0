package memory

import (
	"context"
	"errors"
	"sync"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

// Memory is memory that is registered once with each connection and lent again and again: what an
// rpc.Memory is inside.
type Memory struct {
	data []byte

	mu   sync.Mutex
	used bool
	wins []connWindow // one for each connection on which it was used lately
}

// connWindow is the registration with one connection.
type connWindow struct {
	conn *rdmap.Conn
	w    region.Window
}

// MaxWindows limits the connections with which a Memory stays registered.
const MaxWindows = 16

// Misuse of a [Memory], as in package rpc.
var (
	ErrMemoryInUse = errors.New("transport: memory is in use by a call; wait for Call.Free, or take one Memory for each call at a time")
	ErrNotInMemory = errors.New("transport: octets are not in their Memory; slice them from Memory.Bytes, without a third index")
)

// Alloc returns n zeroed octets.
func Alloc(n int) *Memory { return &Memory{data: make([]byte, n)} }

// Bytes returns the memory.
func (m *Memory) Bytes() []byte { return m.data }

// InUse reports whether the memory is lent.
func (m *Memory) InUse() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Free ends all registrations, or returns ErrMemoryInUse.
func (m *Memory) Free() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used {
		return ErrMemoryInUse
	}
	for i := range m.wins {
		_ = m.wins[i].w.Close() // not open: nothing uses the memory
	}
	clear(m.wins)
	m.wins = m.wins[:0]
	return nil
}

// Take begins a use of p, which must be a part of the memory.
func (m *Memory) Take(p []byte) error {
	_, err := m.take(p)
	return err
}

// take begins a use of p, a part of the memory, and returns its offset.
func (m *Memory) take(p []byte) (off int, err error) {
	// Slices of one array that were cut without a third index end at the same octet: so the offset is found without unsafe.
	whole, part := m.data[:cap(m.data)], p[:cap(p)]
	off = len(whole) - len(part)
	if len(part) == 0 || off < 0 || &whole[len(whole)-1] != &part[len(part)-1] || off+len(p) > len(m.data) {
		return 0, ErrNotInMemory
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used {
		return 0, ErrMemoryInUse
	}
	m.used = true
	return off, nil
}

// Give ends a use: nobody can touch the memory anymore.
func (m *Memory) Give() {
	m.mu.Lock()
	m.used = false
	m.mu.Unlock()
}

// Open lends p, a part of the memory, to the peer of c. The use ends with Give, after the Region was
// invalidated. made says that the memory had to be registered first.
func (m *Memory) Open(c *rdmap.Conn, p []byte, access region.Access) (r region.Region, made bool, err error) {
	off, err := m.take(p)
	if err != nil {
		return r, false, err
	}
	w, made, err := m.window(c)
	if err == nil { // the peer gets a new STag each time, with the bounds and the right of this use
		r, err = w.Open(off, len(p), access)
	}
	if err != nil {
		m.Give()
	}
	return r, made, err
}

// window returns the registration with c, a new one if there is none.
func (m *Memory) window(c *rdmap.Conn) (_ region.Window, made bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.wins[:0]
	var found region.Window
	for _, w := range m.wins {
		switch {
		case w.conn == c:
			found = w.w
		case w.conn.Err() != nil: // its registrations ended with the connection
			continue
		}
		kept = append(kept, w)
	}
	clear(m.wins[len(kept):])
	if m.wins = kept; found != (region.Window{}) {
		return found, false, nil
	}
	if len(m.wins) == MaxWindows {
		_ = m.wins[0].w.Close() // not open: there is one use at a time
		m.wins = append(m.wins[:0], m.wins[1:]...)
	}
	w, err := c.Table().Window(m.data)
	if err == nil {
		m.wins = append(m.wins, connWindow{c, w})
	}
	return w, true, err
}

// Handle returns the name that RFC 8166 Section 3.4.3 has for a steering tag (RFC 5041 Section 4.2). It is the
// same number.
func Handle(s region.STag) chunks.Handle { return chunks.Handle(s) }

// STag is the reverse of Handle.
func STag(h chunks.Handle) region.STag { return region.STag(h) }

// Registration is memory that a peer may touch: a separate registration, or a part of a Memory.
type Registration struct {
	region.Region
	in *Memory // nil: a separate registration
	n  int     // octets
}

// Register gives the peer access to p. If in is not nil, p is a part of it.
func Register(c *rdmap.Conn, ctr *Counters, p []byte, in *Memory, access region.Access) (l Registration, err error) {
	made := true // what costs: a table entry, and for a Memory only the first time on a connection
	if in == nil {
		l.Region, err = c.Register(p, access)
	} else {
		l.Region, made, err = in.Open(c, p, access)
	}
	if err != nil {
		return Registration{}, err
	}
	if made {
		ctr.Registered.Add(1)
	} else {
		ctr.Reused.Add(1)
	}
	ctr.LentOctets.Add(int64(len(p)))
	l.in, l.n = in, len(p)
	return l, nil
}

// Revoke invalidates the steering tag, and returns when the engine no longer touches the memory,
// which then belongs to its owner again. If ctx ends first, the error is region.ErrPinned.
func (l *Registration) Revoke(ctx context.Context, ctr *Counters) error {
	if l.n == 0 { // revoked already, or nothing was registered
		return nil
	}
	if err := l.Invalidate(ctx); err != nil {
		return err
	}
	if l.in != nil {
		l.in.Give()
	}
	ctr.LentOctets.Add(-int64(l.n))
	*l = Registration{}
	return nil
}

// NoWait is a context that is over: "try without waiting".
var NoWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
