package xdrreflect

import "fmt"

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
