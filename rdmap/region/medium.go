package region

import (
	"errors"
	"io"
)

// ErrNotVerifiable: the right Verify for a memory whose medium cannot be read back, or a Verify that
// found it so. The octets at hand are then a copy, and their hash would say nothing about the medium.
var ErrNotVerifiable = errors.New("region: the medium cannot be read back (register without the right Verify)")

// ReadBacker is a Memory with a medium below Bytes, such as a file. A Verify hashes what the medium
// holds, "bypassing any volatile copies" (draft-talpey-rdma-commit Sections 1 and 3.2). For any other
// Memory Bytes is the medium; a Memory that passes on the Persist of another has to pass on ReadBack
// too, with the functions ReadBack and Verifiable.
type ReadBacker interface {
	Memory
	// ReadBack writes the n octets at off to w, as the medium holds them, in one or several pieces
	// that w borrows. Octets that were stored and not persisted may be missing. The error is
	// ErrNotVerifiable if only a volatile copy can be had. ReadBack returns the error of w as it is.
	ReadBack(w io.Writer, off, n int) error
	// Verifiable returns nil if the medium can be read back, otherwise an error for which
	// errors.Is(err, ErrNotVerifiable) holds, and which says why. It does not change.
	Verifiable() error
}

// ReadBack calls the method of mem. If mem is no ReadBacker, it writes the octets of Bytes to w.
func ReadBack(mem Memory, w io.Writer, off, n int) error {
	if r, ok := mem.(ReadBacker); ok {
		return r.ReadBack(w, off, n)
	}
	f := func() error {
		_, err := w.Write(mem.Bytes()[off : off+n])
		return err
	}
	if g, ok := mem.(Guarded); ok {
		return g.Guard(off, n, f)
	}
	return f()
}

// Verifiable returns nil if mem may be registered with the right Verify, otherwise why not.
func Verifiable(mem Memory) error {
	if r, ok := mem.(ReadBacker); ok {
		return r.Verifiable()
	}
	return nil
}

// ReadsBack reports whether stag, if it is valid, names a memory whose medium a Verify reads: that can
// take as long as a Flush.
func (t *Table) ReadsBack(stag STag) bool {
	e := t.dom.find(stag)
	if e == nil || !e.use(stag) {
		return false
	}
	defer e.unpin()
	return e.medium != nil
}
