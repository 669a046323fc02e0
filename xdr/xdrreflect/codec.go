package xdrreflect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"runtime"

	goxdr "github.com/rasky/go-xdr/xdr2"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/xdr"
)

// ErrType: a Go type has no XDR form. A fault of the program, never of a peer.
var ErrType = errors.New("no xdr form")

// ErrNil: a nil pointer where XDR has no way to say so. A fault of the program.
var ErrNil = errors.New("nil pointer that is not optional")

// Limits bound one Marshal or Unmarshal. A zero field means its default; a negative one is an error.
// Exceeding one is xdr.ErrRange.
type Limits struct {
	// MaxOctets is the largest encoded size. If zero, the default of 4 MiB.
	MaxOctets int

	// MaxMemory is how many octets of memory a decoded value may take:
	// elements of slices at their size in Go, strings and opaques twice
	// their length, targets of pointers. If zero, the default of 16 MiB.
	MaxMemory int

	// MaxDepth is how deep values may be nested, one level for each array,
	// slice, pointer and structure; an element of a linked list takes two.
	// If zero, the default of 10,000.
	MaxDepth int
}

// fill returns l with the defaults in place. An error says which limit is out of range.
func (l Limits) fill() (Limits, error) {
	err := setting.Check(
		setting.Count("MaxOctets", l.MaxOctets), setting.Count("MaxMemory", l.MaxMemory), setting.Count("MaxDepth", l.MaxDepth),
	)
	if err != nil {
		return l, fmt.Errorf("xdrreflect: %w", err)
	}
	l.MaxOctets = cmp.Or(l.MaxOctets, 4<<20)
	l.MaxMemory = cmp.Or(l.MaxMemory, 16<<20)
	l.MaxDepth = cmp.Or(l.MaxDepth, 10_000)
	return l, nil
}

// Marshal returns the XDR form of v, with the default [Limits]. v is a value
// or a pointer to one.
//
// Errors wrap [ErrType], [ErrNil], or xdr.ErrRange for a number that does not
// fit 32 bits and for a value beyond the limits; a value that contains itself
// is such a one.
func Marshal(v any) ([]byte, error) { return Limits{}.Marshal(v) }

// Unmarshal reads the XDR form of *v from the start of b, with the default
// [Limits], and returns a view of the octets after it. v is a non-nil
// pointer. It borrows b and copies what it keeps.
//
// *v is set to its zero value first: nothing of an earlier value remains. On
// error it is left as it was. Octets that do not fit the type are a
// *xdr.DecodeError; a type that does not fit XDR wraps [ErrType].
func Unmarshal(b []byte, v any) (rest []byte, err error) { return Limits{}.Unmarshal(b, v) }

// Marshal is the function Marshal with other limits.
func (l Limits) Marshal(v any) ([]byte, error) {
	rv := reflect.ValueOf(v)
	if !rv.IsValid() {
		return nil, fmt.Errorf("xdrreflect: marshal of nil: %w", ErrNil)
	}
	p, err := planOf(rv.Type())
	if err != nil {
		return nil, err
	}
	if l, err = l.fill(); err != nil {
		return nil, err
	}
	var b []byte
	l.nested(func(l Limits) (deep bool) {
		b, deep, err = l.marshal(v, p, rv)
		return deep
	})
	return b, err
}

// marshal is Marshal of v, which rv stands for, with limits that are filled in. deep says that it has failed for
// MaxDepth.
func (l Limits) marshal(v any, p *plan, rv reflect.Value) (b []byte, deep bool, err error) {
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

// Unmarshal is the function Unmarshal with other limits.
func (l Limits) Unmarshal(b []byte, v any) (rest []byte, err error) {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return nil, fmt.Errorf("xdrreflect: unmarshal into %T, not a pointer to a value: %w", v, ErrType)
	}
	p, err := planOf(rv.Type().Elem())
	if err != nil {
		return nil, err
	}
	if l, err = l.fill(); err != nil {
		return nil, err
	}
	l.nested(func(l Limits) (deep bool) {
		rest, deep, err = l.unmarshal(b, v, p)
		return deep
	})
	return rest, err
}

// unmarshal is Unmarshal into *v with limits that are filled in. deep says that it has failed for MaxDepth.
func (l Limits) unmarshal(b []byte, v any, p *plan) (rest []byte, deep bool, err error) {
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
func (l Limits) check(b []byte, p *plan) (n int, deep bool, err error) {
	c := checker{d: xdr.NewDecoder(b[:min(len(b), l.MaxOctets)]), lim: l}
	if c.walk(p) {
		return c.d.Offset(), false, nil
	}
	if c.where == "" {
		c.where = p.typ.String()
	}
	err = c.d.ErrIn(c.where)
	if len(b) > l.MaxOctets { // what is short then is our bound, not the input
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

// shallow is the nesting that is read on the stack of the caller, in levels as in Limits.MaxDepth. Each takes about
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
func (l Limits) nested(f func(Limits) (deep bool)) {
	most := l.MaxDepth
	l.MaxDepth = min(most, shallow)
	if f(l) && most > shallow {
		l.MaxDepth = most
		apart(func() { f(l) })
	}
}
