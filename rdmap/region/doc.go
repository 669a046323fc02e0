// Package region manages the memory that a peer may access by RDMA: registrations with their STags,
// access rights and bounds (RFC 5041 Section 8, RFC 5040 Section 8.1). The engine touches no memory after
// its registration has been invalidated.
//
// A Domain is a protection domain, and a Table is one stream's view of it. A region that a Table
// registers is usable on that stream only. A region that RegisterShared adds is usable on all streams
// of the domain. The STags of one domain mean nothing in another.
//
//	t := region.NewTable()                          // a stream with a domain of its own
//	reg, err := t.Register(buf, region.RemoteRead)  // lends buf to the peer
//	advertise(reg.STag(), 0, len(buf))
//	...
//	err = reg.Invalidate(ctx)                       // buf is ours again
//
// The engine calls, for each segment:
//
//	v, err := t.Lookup(stag, to, n, region.RemoteWrite) // checks, and pins
//	err = v.CopyIn(payload) // a plain copy unless the memory is Guarded
//	v.Release()
//
// Lifetime. Lookup pins the region. Invalidate makes the STag invalid at once, and returns when the
// last pin is gone; from then on no goroutine of the engine can touch the memory. If a pin outlives
// the context (because a system call hangs), Invalidate returns ErrPinned, and the caller must not
// reuse the memory. Pinned counts such regions.
//
// STags. Choice: the upper 24 bits of each STag come from crypto/rand, and the lower 8 bits count
// registrations. So STags are unpredictable, and an invalidated one cannot come back during the next
// 255 registrations. STag 0 is never used.
//
// The race detector. Peers may read and write the same octets at once, which leaves their content
// undefined. In builds with -race such accesses of the engine are hidden from the detector, in memory
// whose rights, number of registrations or sharing among streams let them meet. If you look at such
// memory while peers use it, it is up to you to know what you see.
//
// Cost. Register, Lookup and Invalidate allocate nothing once the table has reached its size. Lookup
// takes no lock and computes no hash: the random part of the STag is an index into an array, and is
// chosen to be unique there.
//
// All methods of Domain, Table and Region may be called from several goroutines at once. A View
// belongs to one goroutine.
package region
