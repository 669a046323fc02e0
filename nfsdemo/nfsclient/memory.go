package nfsclient

import "io"

// Lender is a source or destination of file data in memory. This package reads data from it and
// places data into it without copying them.
type Lender interface {
	// Lend returns the octets [off, off+n), fewer at the end. It lends them until the transfer
	// ends.
	Lend(off int64, n int) []byte
}

// Memory is a file of fixed size in memory: a source and a destination of transfers that needs no
// scratch buffers.
type Memory []byte

var (
	_ Lender      = Memory(nil)
	_ io.ReaderAt = Memory(nil)
	_ io.WriterAt = Memory(nil)
)

// Lend implements [Lender].
func (m Memory) Lend(off int64, n int) []byte {
	if off < 0 || off >= int64(len(m)) {
		return nil
	}
	return m[off:min(off+int64(n), int64(len(m))):min(off+int64(n), int64(len(m)))]
}

// ReadAt implements io.ReaderAt.
func (m Memory) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, m.Lend(off, len(p)))
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt. It refuses octets beyond the end.
func (m Memory) WriteAt(p []byte, off int64) (int, error) {
	n := copy(m.Lend(off, len(p)), p)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
