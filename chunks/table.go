package chunks

import "github.com/stag-rdma/stag/xdr"

// Table is a [Binding] by declaration: a row for each procedure that moves data in chunks. It speaks only for
// the programs of its rows, so [Join] can put it beside other bindings. It must not change while in use.
type Table []Row

// Row says what of one procedure may be reduced. A nil Path means nothing.
type Row struct {
	Prog, Vers, Proc uint32
	Arg, Result      Path
}

// Path steps from the start of arguments or results to the count word of the item that may be reduced, and
// returns the octets from there on. ok is false if the message has no such item. The data of the item may be
// missing, so a Path reads nothing behind the count. It does not allocate.
type Path func(b []byte) (rest []byte, ok bool)

// After returns the Path to the opaque behind the given steps. After() is the first item of all.
func After(steps ...Path) Path {
	return func(b []byte) (rest []byte, ok bool) {
		for _, step := range steps {
			if b, ok = step(b); !ok {
				return nil, false
			}
		}
		return b, true
	}
}

// Octets steps over n octets: 4 for an int, 8 for a hyper, more for opaque[n] with its pad.
func Octets(n int) Path {
	return func(b []byte) (rest []byte, ok bool) {
		d := xdr.NewDecoder(b)
		d.Skip(n)
		return d.Rest(), d.Err() == nil
	}
}

// Opaque steps over an opaque<> or a string<>.
func Opaque(b []byte) (rest []byte, ok bool) {
	d := xdr.NewDecoder(b)
	d.Opaque(1<<31 - 1)
	return d.Rest(), d.Err() == nil
}

// Case steps over the discriminant of a union, such as a status, and goes on only if it is v.
func Case(v uint32) Path {
	return func(b []byte) (rest []byte, ok bool) {
		d := xdr.NewDecoder(b)
		ok = d.Uint32() == v && d.Err() == nil
		return d.Rest(), ok
	}
}

// row returns the row of a procedure, nil if it has none.
func (t Table) row(prog, vers, proc uint32) *Row {
	for i := range t {
		if r := &t[i]; r.Proc == proc && r.Vers == vers && r.Prog == prog {
			return r
		}
	}
	return nil
}

// Covers implements [Scope].
func (t Table) Covers(prog, vers uint32) bool {
	for i := range t {
		if t[i].Prog == prog && t[i].Vers == vers {
			return true
		}
	}
	return false
}

// Eligible implements [Binding].
func (t Table) Eligible(prog, vers, proc uint32) (arg, result bool) {
	r := t.row(prog, vers, proc)
	return r != nil && r.Arg != nil, r != nil && r.Result != nil
}

// FindArg implements [Binding].
func (t Table) FindArg(prog, vers, proc uint32, args []byte) (pos, n int, ok bool) {
	if r := t.row(prog, vers, proc); r != nil {
		return r.Arg.find(args)
	}
	return 0, 0, false
}

// FindResult implements [Binding].
func (t Table) FindResult(prog, vers, proc uint32, results []byte) (pos, n int, ok bool) {
	if r := t.row(prog, vers, proc); r != nil {
		return r.Result.find(results)
	}
	return 0, 0, false
}

// MaxResults implements [Binding]: a table does not know.
func (t Table) MaxResults(_, _, _ uint32, _ []byte) (rest, item int, ok bool) { return 0, 0, false }

// find returns where the data of the item begin, and its count.
func (p Path) find(b []byte) (pos, n int, ok bool) {
	if p == nil {
		return 0, 0, false
	}
	rest, ok := p(b)
	if !ok {
		return 0, 0, false
	}
	d := xdr.NewDecoder(rest)
	count := d.Uint32()
	return len(b) - d.Len(), int(count), d.Err() == nil && count < 1<<31
}
