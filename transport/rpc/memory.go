package rpc

import "github.com/stag-rdma/stag/transport/internal/memory"

// Memory is memory of the application that is registered once with each connection on which it is
// used, and then lent to one call after the other without another registration (RFC 5666 Section
// 7). Between calls no peer can reach it: each use has a new STag, with the bounds and the right
// of that use alone.
//
// A Memory serves one purpose at a time: one argument or one result. While the peer
// can touch it, another use is refused with [ErrMemoryInUse]. For a cancelled call that is until
// its reply comes or its connection ends, see Call.Free. It is safe for concurrent use.
type Memory memory.Memory // transports convert it back, which nobody else can

// Misuse of a [Memory]. Nothing was sent or read.
var (
	// ErrMemoryInUse: a call uses the memory, or a cancelled call still does.
	ErrMemoryInUse = memory.ErrMemoryInUse
	// ErrNotInMemory: the octets are not part of the Memory given with them.
	ErrNotInMemory = memory.ErrNotInMemory
)

// Alloc returns n octets of zeroed memory for use in many calls: see [Call.ItemMemory] and
// [Call.SinkMemory]. It takes no resources of a connection before it is used there. A negative n is 0: what is lent of it is ErrNotInMemory.
func Alloc(n int) *Memory { return (*Memory)(memory.Alloc(max(n, 0))) }

func (m *Memory) region() *memory.Memory { return (*memory.Memory)(m) }

// Bytes returns the memory. While a call uses it, the peer may read or write it, as with any
// Call.Item or Call.Sink.
func (m *Memory) Bytes() []byte { return m.region().Bytes() }

// InUse reports whether a call uses the memory.
func (m *Memory) InUse() bool { return m.region().InUse() }

// Free ends all registrations; then the memory is as new. While a call uses the memory, Free does
// nothing and returns ErrMemoryInUse. If Free is never called, the garbage collector reclaims the
// memory.
func (m *Memory) Free() error { return m.region().Free() }
