// Package region keeps the memory that a peer may reach by RDMA: registrations,
// their STags, rights and bounds, and the rule that nobody touches memory after its
// registration has been invalidated. RFC 5041 Section 8, RFC 5040 Section 8.1.
//
// A Domain is a protection domain. A Table is one stream's view of it. What a Table
// registers is usable on that stream only; what RegisterShared adds is usable on all
// streams of the domain. STags of one domain mean nothing in another.
//
//	t := region.NewTable()                          // a stream with a domain of its own
//	reg, err := t.Register(buf, region.RemoteRead)  // lends buf to the peer
//	advertise(reg.STag(), 0, len(buf))
//	...
//	err = reg.Invalidate(ctx)                       // buf is ours again
//
// The engine, per segment:
//
//	v, err := t.Lookup(stag, to, n, region.RemoteWrite) // checks, and pins
//	err = v.CopyIn(payload) // a plain copy unless the memory is Guarded
//	v.Release()
//
// Lifetime. Lookup pins. Invalidate makes the STag invalid at once and returns when
// the last pin is gone, so that afterwards no goroutine of the engine can touch the
// memory. If a pin outlives the context (a system call that hangs), it returns
// ErrPinned: the memory must then stay as it is; Pinned counts such regions.
//
// STags. Choice: the upper 24 bits are drawn from crypto/rand for every
// registration, the lower 8 count registrations, so that an invalidated STag cannot
// come back during the next 255 registrations and stays unpredictable. STag 0 is never
// used.
//
// Cost. Register, Lookup and Invalidate allocate nothing once the table has reached
// its size. Lookup takes no lock and hashes nothing: the random part of the STag is an
// index into an array in which it was chosen to be unique.
//
// All methods of Domain, Table and Region may be called from several goroutines at
// once; a View belongs to one goroutine.
package region
