package region

// Memory is memory that can be registered: octets, and a way to make them durable. A Memory may be
// registered several times, with different rights.
type Memory interface {
	// Bytes lends the octets until Close. It is called once per registration and must
	// return the same array each time.
	Bytes() []byte
	// Persist returns when the n octets at off, stored before the call, are durable.
	// It may block. The first error is final for the Memory.
	Persist(off, n int) error
	// Close releases the memory. The owner calls it after every registration has been
	// invalidated without ErrPinned.
	Close() error
}

// Bytes is plain memory of the process.
type Bytes []byte

var _ Memory = Bytes(nil)

// Bytes returns b itself.
func (b Bytes) Bytes() []byte { return b }

// Persist returns ErrNotPersistent: nothing in b outlives the process.
func (b Bytes) Persist(_, _ int) error { return ErrNotPersistent }

// Close does nothing.
func (b Bytes) Close() error { return nil }
