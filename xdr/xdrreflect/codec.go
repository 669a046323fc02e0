package xdrreflect

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"

	goxdr "github.com/rasky/go-xdr/xdr2"
	"github.com/stag-rdma/stag/xdr"
)

// ErrType: a Go type has no XDR form. A fault of the program, never of a peer.
var ErrType = errors.New("no xdr form")

// ErrNil: a nil pointer where XDR has no way to say so. A fault of the program.
var ErrNil = errors.New("nil pointer that is not optional")

// limits bound one Marshal or Unmarshal. Exceeding one is xdr.ErrRange.
type limits struct {
	octets int // the largest encoded size
	// memory is how many octets a decoded value may take: elements of slices at their size in Go, strings and opaques
	// twice their length, targets of pointers.
	memory int
	// depth is how deep values may be nested, one level for each array, slice, pointer and structure; an element of a
	// linked list takes two.
	depth int
}

// defaults are the limits of the package; only tests have others.
var defaults = limits{octets: 4 << 20, memory: 16 << 20, depth: 10_000}

// Marshal returns the XDR form of v, a value or a pointer to one: at most 4 MiB, nested at most 10,000 deep.
//
// Errors wrap [ErrType], [ErrNil], or xdr.ErrRange for a number that does not
// fit 32 bits and for a value beyond the limits; a value that contains itself
// is such a one.
func Marshal(v any) ([]byte, error) { return defaults.marshal(v) }

// Unmarshal reads the XDR form of *v from the start of b, and returns a view of the octets after it. v is a non-nil
// pointer. It borrows b and copies what it keeps. It takes at most 4 MiB, which become at most 16 MiB of memory, nested
// at most 10,000 deep.
//
// *v is set to its zero value first: nothing of an earlier value remains. On
// error it is left as it was. Octets that do not fit the type are a
// *xdr.DecodeError; a type that does not fit XDR wraps [ErrType].
func Unmarshal(b []byte, v any) (rest []byte, err error) { return defaults.unmarshal(b, v) }

func (l limits) marshal(v any) ([]byte, error) {
	rv := reflect.ValueOf(v)
	if !rv.IsValid() {
		return nil, fmt.Errorf("xdrreflect: marshal of nil: %w", ErrNil)
	}
	p, err := planOf(rv.Type())
	if err != nil {
		return nil, err
	}
	var b []byte
	l.nested(func(l limits) (deep bool) {
		b, deep, err = l.marshalAs(v, p, rv)
		return deep
	})
	return b, err
}

// marshalAs marshals v, which rv stands for. deep says that it has failed for its depth.
func (l limits) marshalAs(v any, p *plan, rv reflect.Value) (b []byte, deep bool, err error) {
	s := sizer{lim: l}
	if err := s.walk(p, rv); err != nil {
		return nil, s.deep, fmt.Errorf("xdrreflect: marshal of %v: %w", rv.Type(), err)
	}
	w := bytes.NewBuffer(make([]byte, 0, s.n))
	n, err := goxdr.Marshal(w, v)
	if err = agree(n, s.n, err); err != nil {
		return nil, false, err
	}
	return w.Bytes(), false, nil
}

func (l limits) unmarshal(b []byte, v any) (rest []byte, err error) {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return nil, fmt.Errorf("xdrreflect: unmarshal into %T, not a pointer to a value: %w", v, ErrType)
	}
	p, err := planOf(rv.Type().Elem())
	if err != nil {
		return nil, err
	}
	l.nested(func(l limits) (deep bool) {
		rest, deep, err = l.unmarshalAs(b, v, p)
		return deep
	})
	return rest, err
}

// unmarshalAs unmarshals into *v. deep says that it has failed for its depth.
func (l limits) unmarshalAs(b []byte, v any, p *plan) (rest []byte, deep bool, err error) {
	n, deep, err := l.check(b, p)
	if err != nil {
		return nil, deep, err
	}
	reflect.ValueOf(v).Elem().SetZero()
	m, err := goxdr.UnmarshalLimited(bytes.NewReader(b[:n]), v, uint(n)+1)
	if err = agree(m, n, err); err != nil {
		return nil, false, err
	}
	return b[n:], false, nil
}

// check walks b as p says and returns the octets that the value takes.
func (l limits) check(b []byte, p *plan) (n int, deep bool, err error) {
	c := checker{d: xdr.NewDecoder(b[:min(len(b), l.octets)]), lim: l}
	if c.walk(p) {
		return c.d.Offset(), false, nil
	}
	if c.where == "" {
		c.where = p.typ.String()
	}
	err = c.d.ErrIn(c.where)
	if len(b) > l.octets { // what is short then is our bound, not the input
		err = &xdr.DecodeError{Field: c.where, Off: c.d.Offset(), Err: xdr.ErrRange}
	}
	return 0, c.deep, err
}

// agree compares what go-xdr did with what the walk before it found.
func agree(got, want int, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("xdrreflect: %w", err)
	case got != want:
		return fmt.Errorf("xdrreflect: go-xdr took %d octets, the type has %d", got, want)
	}
	return nil
}

// shallow is the nesting that is read on the stack of the caller, in levels as in limits.depth. Each takes about
// 400 octets of it, so these fit the 32 KiB that goroutines with a handler have anyway.
const shallow = 64

// turns are as many as can compute at the same time.
var turns = make(chan struct{}, runtime.GOMAXPROCS(0))

// apart runs f, which recurses deeply and does not block, on a stack of its own. A stack does not shrink when a
// function returns: that of a server's handler would stay at 4 MiB for as long as the handler blocks, for a list that
// came in 60 KiB. So this one ends with f, and there are few at a time. A panic of f is one of the caller.
func apart(f func()) {
	turns <- struct{}{}
	defer func() { <-turns }()
	panicked := make(chan any)
	go func() {
		defer func() { panicked <- recover() }()
		f()
	}()
	if v := <-panicked; v != nil {
		panic(v)
	}
}

// nested runs f here with limits that allow a shallow nesting. If f says that this was not enough, it runs apart with all
// that l allows.
func (l limits) nested(f func(limits) (deep bool)) {
	most := l.depth
	l.depth = min(most, shallow)
	if f(l) && most > shallow {
		l.depth = most
		apart(func() { f(l) })
	}
}
