package xdrreflect

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// options are those of one field.
type options struct {
	optional, numbers, union, hasArm, item bool
	arm                                    int32
}

// parseTag reads the options of a field. disc is the kind of the discriminant
// that stands before it, Invalid if none does. Only one option per field besides ddp: with more, go-xdr reads
// an option's value wrongly, or reads and writes different things.
func parseTag(f reflect.StructField, disc reflect.Kind) (o options, err error) {
	tag := f.Tag.Get("xdr")
	if f.Tag.Get("xdropaque") == "false" {
		tag = strings.TrimPrefix(tag+",opaque=false", ",")
	}
	if rest, found := strings.CutSuffix(","+tag, ",ddp"); found {
		o.item, tag = true, strings.TrimPrefix(rest, ",")
	}
	kind := f.Type.Kind()
	key, val, _ := strings.Cut(tag, "=")
	ok := false
	switch {
	case tag == "":
		ok = true
	case tag == "optional":
		o.optional, ok = true, kind == reflect.Pointer
	case tag == "opaque=false":
		o.numbers, ok = true, isOctets(f.Type)
	case tag == "union":
		o.union, ok = true, isDiscriminant(kind)
	case key == "unioncase" && disc != reflect.Invalid:
		n, err := strconv.ParseInt(val, 10, 32)
		o.hasArm, o.arm = true, int32(n)
		ok = err == nil && strconv.FormatInt(n, 10) == val
		if n < 0 && (disc < reflect.Int || disc > reflect.Int64) {
			ok = false // go-xdr compares numbers of type int: it would be there where that has 32 bits
		}
	}
	if o.item && (kind != reflect.Slice || f.Type.Elem() != reflect.TypeFor[byte]() || o.numbers) {
		ok = false
	}
	if !ok {
		err = fmt.Errorf("field %s: tag %q on a %v: %w", f.Name, f.Tag.Get("xdr"), f.Type, ErrType)
	}
	return o, err
}

// isOctets tells whether t is a slice or array of 8-bit numbers.
func isOctets(t reflect.Type) bool {
	return (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem().Kind() == reflect.Uint8
}

// isDiscriminant tells whether a union may be told apart by a value of kind k.
func isDiscriminant(k reflect.Kind) bool {
	switch k {
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint:
		return true
	default:
		return false
	}
}

// form is how a type looks on the wire.
type form uint8

const (
	formSigned   form = iota // 4 octets, range of bits
	formUnsigned             // 4 octets, range of bits
	formHyper                // 8 octets, double included
	formFloat                // 4 octets
	formBool                 // 4 octets, 0 or 1
	formOpaque               // count, octets, pad; string included
	formFixed                // n octets, pad
	formSlice                // count, elements
	formArray                // n elements
	formStruct               // fields
	formPointer              // its target
)

// plan is a type as the walks of this package see it.
type plan struct {
	form   form
	typ    reflect.Type
	bits   int     // formSigned, formUnsigned: 8, 16 or 32
	n      int     // formFixed, formArray
	elem   *plan   // formSlice, formArray, formPointer
	fields []field // formStruct
	min    int     // least octets on the wire, saturated at maxMin
	state  state   // of the computation of min
}

// field is an exported field of a structure.
type field struct {
	*plan
	name     string
	index    int
	optional bool // a bool comes first
	union    bool // discriminant of what follows
	hasArm   bool // only there when the discriminant is arm
	arm      int32
	item     bool // the member that may be reduced
}

// maxMin keeps sums and products of least sizes in an int everywhere.
const maxMin = 1 << 24

// state marks plans while least sizes are computed.
type state uint8

const (
	stateNew state = iota
	stateBusy
	stateDone
)

// plans caches finished plans by type.
var plans sync.Map // reflect.Type → *plan

// planOf returns the plan of t, or an error that wraps ErrType.
func planOf(t reflect.Type) (*plan, error) {
	if p, ok := plans.Load(t); ok {
		return p.(*plan), nil
	}
	b := builder{seen: map[seenKey]*plan{}}
	p, err := b.build(t, false)
	if err == nil {
		err = b.measureAll()
	}
	if err != nil {
		return nil, fmt.Errorf("xdrreflect: type %v: %w", t, err)
	}
	plans.Store(t, p)
	return p, nil
}

// builder makes the plans of one type and of all types inside it. Types may
// refer to themselves, so a plan is entered in seen before it is complete.
type builder struct {
	seen map[seenKey]*plan
}

// seenKey tells octets apart from numbers: []byte has two forms.
type seenKey struct {
	t       reflect.Type
	numbers bool
}

// build returns the plan of t; numbers asks for the form of opaque=false.
func (b *builder) build(t reflect.Type, numbers bool) (*plan, error) {
	key := seenKey{t, numbers}
	if p, ok := b.seen[key]; ok {
		return p, nil
	}
	p := &plan{typ: t}
	b.seen[key] = p
	if t.String() == "time.Time" { // go-xdr has a form of its own for it
		return nil, fmt.Errorf("%v: %w", t, ErrType)
	}
	switch t.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32:
		p.form, p.bits = formSigned, t.Bits()
	case reflect.Int:
		p.form, p.bits = formSigned, 32
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		p.form, p.bits = formUnsigned, t.Bits()
	case reflect.Uint:
		p.form, p.bits = formUnsigned, 32
	case reflect.Int64, reflect.Uint64, reflect.Float64:
		p.form = formHyper
	case reflect.Float32:
		p.form = formFloat
	case reflect.Bool:
		p.form = formBool
	case reflect.String:
		p.form = formOpaque
	case reflect.Slice, reflect.Array:
		return p, b.buildList(p, numbers)
	case reflect.Struct:
		p.form = formStruct
		return p, b.buildStruct(p)
	case reflect.Pointer:
		p.form = formPointer
		var err error
		p.elem, err = b.build(t.Elem(), false)
		return p, err
	default:
		return nil, fmt.Errorf("%v: %w", t, ErrType)
	}
	return p, nil
}

// buildList completes the plan of a slice or an array.
func (b *builder) buildList(p *plan, numbers bool) (err error) {
	elem, array := p.typ.Elem(), p.typ.Kind() == reflect.Array
	p.form = formSlice
	if array {
		p.form, p.n = formArray, p.typ.Len()
	}
	if elem.Kind() == reflect.Uint8 && !numbers {
		if elem != reflect.TypeFor[byte]() { // go-xdr panics on it
			return fmt.Errorf("octets of type %v: %w", elem, ErrType)
		}
		p.form = formOpaque
		if array {
			p.form = formFixed
		}
		return nil
	}
	p.elem, err = b.build(elem, false)
	return err
}

// buildStruct completes the plan of a structure.
func (b *builder) buildStruct(p *plan) error {
	var disc reflect.Kind // of the last discriminant
	for i := range p.typ.NumField() {
		sf := p.typ.Field(i)
		if !sf.IsExported() {
			if sf.Tag.Get("xdr") != "" { // somebody means it to be sent
				return fmt.Errorf("field %s: tag %q, but it is not exported: %w", sf.Name, sf.Tag.Get("xdr"), ErrType)
			}
			continue
		}
		o, err := parseTag(sf, disc)
		if err != nil {
			return err
		}
		f := field{name: sf.Name, index: i, optional: o.optional, union: o.union, hasArm: o.hasArm, arm: o.arm, item: o.item}
		if f.plan, err = b.build(sf.Type, o.numbers); err != nil {
			return fmt.Errorf("field %s: %w", sf.Name, err)
		}
		if o.union {
			disc = sf.Type.Kind()
		}
		p.fields = append(p.fields, f)
	}
	return nil
}

// measureAll computes the least size on the wire of every plan. It refuses
// types that contain themselves without an end, and lists whose elements may
// take no octets: their count would be bounded by nothing.
func (b *builder) measureAll() error {
	for _, p := range b.seen {
		if err := p.measure(); err != nil {
			return err
		}
	}
	for _, p := range b.seen {
		if p.form == formSlice && p.elem.min == 0 {
			return fmt.Errorf("%v with elements of no octets: %w", p.typ, ErrType)
		}
		// Elements of no octets are walked one by one; bound them, too.
		if p.form == formArray && p.elem.min == 0 && p.n > maxMin {
			return fmt.Errorf("%v: %w", p.typ, ErrType)
		}
	}
	return nil
}

// measure computes p.min and those it depends on. What is optional, an arm of
// a union or an element of a slice may be absent and is not followed.
func (p *plan) measure() error {
	switch p.state {
	case stateNew:
	case stateDone:
		return nil
	case stateBusy:
		return fmt.Errorf("%v contains itself: %w", p.typ, ErrType)
	}
	p.state = stateBusy
	n, err := p.least()
	p.min, p.state = min(n, maxMin), stateDone
	return err
}

// least returns the least octets of p on the wire.
func (p *plan) least() (int, error) {
	switch p.form {
	case formHyper:
		return 8, nil
	case formFixed:
		return (min(p.n, maxMin) + 3) &^ 3, nil
	case formPointer:
		return p.elem.min0()
	case formArray:
		n, err := p.elem.min0()
		return min(p.n, maxMin) * min(n, 64), err
	case formStruct:
		return p.leastStruct()
	case formSigned, formUnsigned, formFloat, formBool, formOpaque, formSlice:
	}
	return 4, nil
}

func (p *plan) leastStruct() (sum int, err error) {
	for _, f := range p.fields {
		n := 0
		switch {
		case f.optional:
			n = 4
		case f.hasArm:
		default:
			if n, err = f.min0(); err != nil {
				return 0, err
			}
		}
		sum = min(sum+n, maxMin)
	}
	return sum, nil
}

// min0 measures p and returns its least size.
func (p *plan) min0() (int, error) {
	err := p.measure()
	return p.min, err
}
