package xdr

import (
	"errors"
	"io"
	"slices"
)

// MaxFragment is the largest fragment a record mark can announce, in octets.
const MaxFragment = 1<<31 - 1

// lastFragment is the top bit of a record mark.
const lastFragment = 1 << 31

// AppendRecordMark appends the mark of a fragment of n octets: 4 octets, the
// top bit set on the last fragment of a record, 31 bits of length (RFC 5531
// Section 11). The octets of the fragment follow it. n is 0 to MaxFragment;
// any other n is a fault of the caller, and panics.
func AppendRecordMark(b []byte, n int, last bool) []byte {
	if uint(n) > MaxFragment {
		panic("xdr: fragment length out of range")
	}
	v := uint32(n)
	if last {
		v |= lastFragment
	}
	return AppendUint32(b, v)
}

// parseMark splits a record mark; b holds at least 4 octets.
func parseMark(b []byte) (n int, last bool) {
	d := NewDecoder(b)
	v := d.Uint32()
	return int(v &^ lastFragment), v&lastFragment != 0
}

// DefaultMaxRecord is the largest record a [RecordReader] accepts when it is
// told no other: 4 MiB.
const DefaultMaxRecord = 4 << 20

const (
	// maxEmptyFragments is how many fragments of no octets a record may hold
	// besides its last one. They are legal and useless; without a bound a
	// peer could keep a reader busy with a record that never grows.
	maxEmptyFragments = 16

	// growStep is the most that is allocated ahead of the octets received.
	growStep = 64 << 10

	// stageSize is what is read at once while marks and short bodies are due.
	stageSize = 4 << 10
)

// RecordReader cuts the octet stream of an RPC connection over TCP into
// records (RFC 5531 Section 11). A record is one RPC message, sent as one or
// more fragments, each after a mark; the mark of the last one says so.
//
// What a mark announces is compared with the bound before anything is read.
// Memory grows with the octets that arrive, at each step by at most 64 KiB or the
// size it has: a peer cannot make the reader allocate by announcing.
//
// It reads up to 4 KiB ahead. It belongs to one goroutine at a time.
type RecordReader struct {
	r     io.Reader
	max   int
	err   error  // first fatal error; returned ever after
	stage []byte // octets read and not yet used, a window of mem
	mem   [stageSize]byte
}

// NewRecordReader returns a reader of the records in r, of at most max octets
// each, marks not counted; max ≤ 0 means [DefaultMaxRecord].
func NewRecordReader(r io.Reader, max int) *RecordReader {
	if max <= 0 {
		max = DefaultMaxRecord
	}
	return &RecordReader{r: r, max: max}
}

// Next reads one record and returns its octets, without marks, appended to
// buf[:0]. It borrows buf until it returns, and returns it or, if its capacity
// was too small, a new slice. A record may have no octets.
//
// The end of the stream between two records is io.EOF, inside one it is
// io.ErrUnexpectedEOF. A record above the bound, and one with more than 16
// empty fragments, is a *[DecodeError] that wraps ErrRange. An error inside a
// record is final, since the place in the stream is lost; an error of the
// reader between two records, such as a deadline, is not.
func (r *RecordReader) Next(buf []byte) ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := r.fill(4); err != nil {
		if errors.Is(err, io.EOF) && len(r.stage) > 0 {
			r.err = io.ErrUnexpectedEOF
			return nil, r.err
		}
		return nil, err
	}
	buf, r.err = r.join(buf[:0])
	return buf, r.err
}

// Buffered returns a view, valid until the next call of Next, of the octets
// read ahead and not used: what another user of the stream must be given first.
func (r *RecordReader) Buffered() []byte { return r.stage }

// join reads the fragments of one record and appends them to buf.
func (r *RecordReader) join(buf []byte) ([]byte, error) {
	for empty := 0; ; {
		if err := r.fill(4); err != nil {
			return nil, inside(err)
		}
		n, last := parseMark(r.stage)
		r.stage = r.stage[4:]
		if n == 0 && !last {
			empty++
		}
		if n > r.max-len(buf) || empty > maxEmptyFragments {
			return nil, &DecodeError{Field: "record mark", Off: len(buf), Err: ErrRange}
		}
		var err error
		if buf, err = r.body(buf, n); err != nil || last {
			return buf, err
		}
	}
}

// body appends the n octets of one fragment to buf.
func (r *RecordReader) body(buf []byte, n int) ([]byte, error) {
	for n > 0 {
		if len(r.stage) == 0 && n >= stageSize/2 {
			m, err := r.direct(&buf, n)
			if err != nil {
				return nil, err
			}
			n -= m
			continue
		}
		if err := r.fill(1); err != nil {
			return nil, inside(err)
		}
		m := min(n, len(r.stage))
		buf = append(grow(buf, n), r.stage[:m]...)
		r.stage = r.stage[m:]
		n -= m
	}
	return buf, nil
}

// direct reads some of the next n octets straight into buf and returns how
// many: long bodies are not copied through the stage.
func (r *RecordReader) direct(buf *[]byte, n int) (int, error) {
	b := grow(*buf, n)
	m, err := r.read(b[len(b):min(cap(b), len(b)+n)])
	*buf = b[:len(b)+m]
	return m, inside(err)
}

// grow makes room in buf for at least one of the n > 0 octets due.
func grow(buf []byte, n int) []byte {
	if room := cap(buf) - len(buf); room >= n || room >= stageSize {
		return buf
	}
	return slices.Grow(buf, min(n, max(growStep, len(buf))))
}

// fill reads until at least n ≤ 4 octets are staged. What is staged stays so
// on error.
func (r *RecordReader) fill(n int) error {
	if len(r.stage) >= n {
		return nil
	}
	have := copy(r.mem[:], r.stage)
	r.stage = r.mem[:have]
	for have < n {
		m, err := r.read(r.mem[have:])
		have += m
		r.stage = r.mem[:have]
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads at least one octet into p, or returns an error. An error that
// comes with octets is left to the next read, as io.Reader demands.
func (r *RecordReader) read(p []byte) (int, error) {
	for range 100 {
		if n, err := r.r.Read(p); n > 0 || err != nil {
			if n > 0 {
				err = nil
			}
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// inside is the error of a stream that fails inside a record.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
