package xdrreflect

import (
	"fmt"
	"reflect"

	"github.com/stag-rdma/stag/xdr"
)

// sizer walks a value and adds up what it takes on the wire, before go-xdr
// recurses through it.
type sizer struct {
	lim   limits
	n     int
	depth int
	deep  bool // the walk has failed because it was above its limit
}

// walk adds one value.
func (s *sizer) walk(p *plan, v reflect.Value) error {
	switch p.form {
	case formSigned:
		return s.word(v.Int() >= -1<<31 && v.Int() < 1<<31)
	case formUnsigned:
		return s.word(v.Uint() < 1<<32)
	case formHyper:
		return s.add(8)
	case formOpaque:
		if err := s.add(4); err != nil {
			return err
		}
		return s.octets(v.Len())
	case formFixed:
		return s.octets(p.n)
	case formSlice, formArray, formStruct, formPointer:
		return s.nested(p, v)
	case formFloat, formBool:
	}
	return s.add(4)
}

// nested adds a value that holds others, one level down.
func (s *sizer) nested(p *plan, v reflect.Value) error {
	if s.depth++; s.depth > s.lim.depth {
		s.deep = true
		return errRange("nesting", s.depth)
	}
	defer func() { s.depth-- }()
	switch p.form {
	case formSlice:
		if err := s.add(4); err != nil {
			return err
		}
		return s.elements(p.elem, v)
	case formArray:
		return s.elements(p.elem, v)
	case formPointer:
		if v.IsNil() {
			return fmt.Errorf("%v: %w", p.typ, ErrNil)
		}
		return s.walk(p.elem, v.Elem())
	default:
		return s.fields(p, v)
	}
}

func (s *sizer) elements(p *plan, v reflect.Value) error {
	for i := range v.Len() {
		if err := s.walk(p, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *sizer) fields(p *plan, v reflect.Value) error {
	disc := int64(0)
	for i := range p.fields {
		f := &p.fields[i]
		fv := v.Field(f.index)
		if f.hasArm && int64(f.arm) != disc {
			continue
		}
		if f.optional {
			if err := s.add(4); err != nil {
				return err
			}
			if fv.IsNil() {
				continue
			}
		}
		if f.union {
			disc = discriminant(fv)
		}
		if err := s.walk(f.plan, fv); err != nil {
			return fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	return nil
}

// discriminant returns the number that go-xdr compares with those of arms.
func discriminant(v reflect.Value) int64 {
	switch {
	case v.Kind() == reflect.Bool && v.Bool():
		return 1
	case v.Kind() == reflect.Bool:
		return 0
	case v.CanInt():
		return v.Int()
	}
	return int64(v.Uint())
}

// word adds 4 octets for a number that must be in range.
func (s *sizer) word(inRange bool) error {
	if !inRange {
		return fmt.Errorf("number above 32 bits: %w", xdr.ErrRange)
	}
	return s.add(4)
}

// octets adds n octets and their pad.
func (s *sizer) octets(n int) error {
	if n > s.lim.octets {
		return errRange("octets", n)
	}
	return s.add(n + xdr.Pad(n))
}

func (s *sizer) add(n int) error {
	if s.n += n; s.n > s.lim.octets {
		return errRange("octets", s.n)
	}
	return nil
}

func errRange(what string, n int) error { return fmt.Errorf("%d %s: %w", n, what, xdr.ErrRange) }
