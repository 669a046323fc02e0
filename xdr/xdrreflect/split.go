package xdrreflect

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/stag-rdma/stag/xdr"
)

// Split encodes and decodes the values of a structure whose item, the member with the tag `xdr:"ddp"`, is not
// copied. It is safe for concurrent use. The limits of [Unmarshal] hold for what is not the item.
type Split struct {
	typ  reflect.Type
	plan *plan
	at   []int // of the item, for reflect.Value.FieldByIndex; nil: there is none
}

// splits caches by type.
var splits sync.Map // reflect.Type → *Split

// SplitOf returns the Split of a structure. The error wraps [ErrType] if t is none, has no XDR form, has two
// items, or has its item behind a pointer or in a list.
func SplitOf(t reflect.Type) (*Split, error) {
	if s, ok := splits.Load(t); ok {
		return s.(*Split), nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("xdrreflect: %v is not a structure: %w", t, ErrType)
	}
	p, err := planOf(t)
	if err != nil {
		return nil, err
	}
	s := &Split{typ: t, plan: p}
	places := p.items(nil, true, map[*plan]bool{})
	if len(places) > 1 || len(places) == 1 && places[0] == nil {
		return nil, fmt.Errorf("xdrreflect: type %v: two items, or one behind a pointer or in a list: %w", t, ErrType)
	}
	if len(places) == 1 {
		s.at = places[0]
	}
	splits.Store(t, s)
	return s, nil
}

// items returns where the items below p are; nil for one that FieldByIndex cannot reach. direct says that it
// can reach p, by the index at.
func (p *plan) items(at []int, direct bool, seen map[*plan]bool) (places [][]int) {
	if seen[p] && !direct {
		return nil
	}
	seen[p] = true
	if p.elem != nil {
		return p.elem.items(nil, false, seen)
	}
	for i := range p.fields {
		f := &p.fields[i]
		at := append(slices.Clip(at), f.index)
		switch {
		case f.item && direct:
			places = append(places, at)
		case f.item:
			places = append(places, nil)
		default:
			places = append(places, f.items(at, direct, seen)...)
		}
	}
	return places
}

// HasItem reports whether the type has an item.
func (s *Split) HasItem() bool { return s.at != nil }

// Item returns the item of *v, a pointer to a value of the type.
func (s *Split) Item(v any) []byte {
	if s.at == nil {
		return nil
	}
	return reflect.ValueOf(v).Elem().FieldByIndex(s.at).Bytes()
}

// SetItem sets the item of *v.
func (s *Split) SetItem(v any, item []byte) {
	if s.at != nil {
		reflect.ValueOf(v).Elem().FieldByIndex(s.at).SetBytes(item)
	}
}

// Find steps from the start of a value to the count word of its item, and returns the octets from there on. ok
// is false if the value has none: there is no such member, it is in another arm of a union, or the octets
// before it do not decode.
func (s *Split) Find(b []byte) (rest []byte, ok bool) {
	if s.at == nil {
		return nil, false
	}
	lim := defaults
	lim.depth = shallow
	rest, ok, deep := s.find(b, lim)
	if deep {
		rest, ok = s.findApart(b)
	}
	return rest, ok
}

func (s *Split) find(b []byte, lim limits) (rest []byte, ok, deep bool) {
	c := checker{d: xdr.NewDecoder(b), lim: lim, stop: true}
	c.walk(s.plan)
	return c.d.Rest(), c.there, c.deep
}

// findApart is a function of its own because its closure allocates, which Find does not.
func (s *Split) findApart(b []byte) (rest []byte, ok bool) {
	apart(func() { rest, ok, _ = s.find(b, defaults) })
	return rest, ok
}

// Memory returns how many octets Unmarshal of b, without an item of its own, takes beyond b: those of the value, as
// the limit of [Unmarshal] counts them, and of copies. Of octets that do not decode it makes no value. It allocates nothing for a
// value that is not nested deeply.
func (s *Split) Memory(b []byte) int {
	lim := defaults
	lim.depth = shallow
	n, deep := s.memory(b, lim)
	if deep {
		n = s.memoryApart(b)
	}
	return n
}

func (s *Split) memory(b []byte, lim limits) (n int, deep bool) {
	c := checker{d: xdr.NewDecoder(b), lim: lim, stop: true, skip: true}
	whole := c.walk(s.plan)
	n = int(s.typ.Size())
	copied := len(b) - c.data
	if copied > lim.octets { // refused for its length, before anything is made
		return n, c.deep
	}
	if whole {
		n += c.mem
	}
	if c.there {
		n += copied
	}
	return n, c.deep
}

// memoryApart is a function of its own because its closure allocates, as findApart.
func (s *Split) memoryApart(b []byte) (n int) {
	apart(func() { n, _ = s.memory(b, defaults) })
	return n
}

// Marshal returns the XDR form of *v without the data and the pad of its item: their place is at offset pos,
// behind the count word. pos is 0 if the value has no item. item is not copied. Errors are those of the
// function Marshal.
func (s *Split) Marshal(v any) (b []byte, pos int, item []byte, err error) {
	if s.at == nil {
		b, err = Marshal(v)
		return b, 0, nil, err
	}
	item = s.Item(v)
	rest := reflect.New(s.typ)
	rest.Elem().Set(reflect.ValueOf(v).Elem())
	rest.Elem().FieldByIndex(s.at).SetZero()
	if b, err = Marshal(rest.Interface()); err != nil {
		return nil, 0, nil, err
	}
	count, ok := s.Find(b)
	if !ok {
		return b, 0, nil, nil
	}
	if int64(len(item)) > 1<<32-1 {
		return nil, 0, nil, fmt.Errorf("xdrreflect: marshal of %v: %w", s.typ, errRange("octets", len(item)))
	}
	binary.BigEndian.PutUint32(count, uint32(len(item)))
	return b, len(b) - len(count) + 4, item, nil
}

// Unmarshal reads the XDR form of *v, which takes all of b. The item of *v becomes a view of b, or it becomes
// item if that is not nil: then b lacks its data and pad, and the count word must be its length; a value
// without a place for an item takes only an empty one. The rest is copied. After an error, a *xdr.DecodeError, *v is of no use.
func (s *Split) Unmarshal(b, item []byte, v any) error {
	count, ok := s.Find(b)
	if !ok {
		err := s.unmarshal(b, v)
		if err == nil && len(item) > 0 { // data that belong to nothing
			err = &xdr.DecodeError{Field: s.typ.String(), Off: len(b), Err: xdr.ErrTrailing}
		}
		return err
	}
	d := xdr.NewDecoder(b)
	d.Skip(len(b) - len(count))
	pos := d.Offset() + 4
	if item == nil {
		item = d.Opaque(1<<31 - 1)
	} else if int64(d.Uint32()) != int64(len(item)) {
		d.Fail(xdr.ErrRange)
	}
	if err := d.ErrIn(s.typ.String()); err != nil {
		return err
	}
	if pos+d.Len() > defaults.octets { // before it is copied
		return &xdr.DecodeError{Field: s.typ.String(), Off: defaults.octets, Err: xdr.ErrRange}
	}
	rest := make([]byte, pos, pos+d.Len())
	copy(rest, b)
	clear(rest[pos-4:])
	if err := s.unmarshal(append(rest, d.Rest()...), v); err != nil {
		return err
	}
	s.SetItem(v, item)
	return nil
}

// unmarshal is the function Unmarshal for octets that belong to *v to the last.
func (s *Split) unmarshal(b []byte, v any) error {
	rest, err := Unmarshal(b, v)
	if err == nil && len(rest) > 0 {
		err = &xdr.DecodeError{Field: s.typ.String(), Off: len(b) - len(rest), Err: xdr.ErrTrailing}
	}
	return err
}
