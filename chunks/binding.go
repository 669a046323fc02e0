package chunks

import "github.com/stag-rdma/stag/xdr"

// Binding is an upper-layer binding (RFC 8166 Section 6): it says which data
// items of which procedures are DDP-eligible, that is, may be reduced, and finds
// them: the first eligible argument of a call and the first eligible result of a
// reply. See [Lister] for messages with several.
//
// The octets given to a Find method may be reduced already, so it reads no further
// than the item's count word. pos is the offset of the data, just after that word,
// from the start of the octets given, and n is the count. ok is false when the
// procedure has no such item, when this message has none (an error result), or
// when the octets do not decode up to the count. The count is not compared with
// the octets that are there.
//
// Methods borrow their arguments, do not allocate, and may be called from any
// goroutine.
type Binding interface {
	// Eligible says whether an argument, or a result, of the procedure may be
	// reduced.
	Eligible(prog, vers, proc uint32) (arg, result bool)
	// FindArg finds the eligible argument in the arguments of a call.
	FindArg(prog, vers, proc uint32, args []byte) (pos, n int, ok bool)
	// FindResult finds the eligible result in the results of a reply.
	FindResult(prog, vers, proc uint32, results []byte) (pos, n int, ok bool)
	// MaxResults returns the largest results a call with these arguments can
	// have: rest is the octets after the RPC reply header without the data of
	// the eligible result, item the octets of those data. ok is false for a
	// procedure it does not know and for arguments that do not decode.
	MaxResults(prog, vers, proc uint32, args []byte) (rest, item int, ok bool)
}

// EligibleResults appends to list the eligible results of a reply that are whole in results, pad included, in their order:
// all of them if b has a [Lister] for the program. Pos counts from the start of results, and Data is a view of results.
func EligibleResults(b Binding, prog, vers, proc uint32, results []byte, list []Item) []Item {
	if l := ListerOf(b, prog, vers); l != nil {
		return listResults(l, prog, vers, proc, results, list)
	}
	pos, n, ok := b.FindResult(prog, vers, proc, results)
	if !ok || !whole(results, pos, n) {
		return list
	}
	return append(list, Item{pos, results[pos : pos+n]})
}

// listResults is EligibleResults for a Lister. It is apart because its function is allocated.
func listResults(l Lister, prog, vers, proc uint32, results []byte, list []Item) []Item {
	l.ListResults(prog, vers, proc, results, func(pos, n int) int {
		if !whole(results, pos, n) {
			return -1
		}
		list = append(list, Item{pos, results[pos : pos+n]})
		return n + xdr.Pad(n)
	})
	return list
}

// whole reports whether n octets at pos and their pad are in b.
func whole(b []byte, pos, n int) bool {
	return n <= len(b)-pos && xdr.Pad(n) <= len(b)-pos-n
}

// Scope is an optional half of a [Binding]: it reports for which programs the
// binding speaks. A binding without it speaks for all.
//
// Under RFC 5666 "any object MAY be chosen for chunking" (RFC 5666 Section 3.4)
// in a program that no binding speaks for; with one, only what it calls eligible.
type Scope interface {
	Covers(prog, vers uint32) bool
}

// Covers reports whether b speaks for a program. A nil b speaks for none.
func Covers(b Binding, prog, vers uint32) bool {
	if s, ok := b.(Scope); ok {
		return s.Covers(prog, vers)
	}
	return b != nil
}

// Visit is called for a variable-length opaque or string whose data are due at
// offset pos, just after its count word n. It returns how many octets of the
// item follow there: the data and their pad, and before them the padding of an
// RDMA_MSGP; 0 when a read chunk has them. A negative number ends the walk.
type Visit func(pos, n int) (octets int)

// Walker is an optional half of a [Binding]: it finds every variable-length
// opaque and string of a message, as the receiver of an RDMA_MSGP must (RFC 5666
// Section 3.9). ok is false when the octets do not decode up to the last item,
// or visit ended the walk. A procedure the program does not have, and one of a
// program that is not covered, has no items. Methods borrow what they are given.
type Walker interface {
	Scope
	WalkArgs(prog, vers, proc uint32, args []byte, visit Visit) (ok bool)
	WalkResults(prog, vers, proc uint32, results []byte, visit Visit) (ok bool)
}

// WalkerOf returns the Walker of a program, nil if b has none.
func WalkerOf(b Binding, prog, vers uint32) Walker {
	if w, ok := single(b, prog, vers).(Walker); ok && w.Covers(prog, vers) {
		return w
	}
	return nil
}

// Lister is an optional half of a [Binding] for programs whose messages can have several
// eligible items: it finds them all in octets from which some of them were taken out.
type Lister interface {
	// Lists reports whether it knows a program. In messages of other programs the Find
	// methods of Binding find all eligible items.
	Lists(prog, vers uint32) bool
	// ListArgs and ListResults call visit for every DDP-eligible item, in order; see
	// [Visit]. ok is false when the octets do not decode up to the last item, when there is
	// something that cannot be stepped over, and when visit ended the walk. They borrow
	// what they are given.
	ListArgs(prog, vers, proc uint32, args []byte, visit Visit) (ok bool)
	ListResults(prog, vers, proc uint32, results []byte, visit Visit) (ok bool)
}

// ListerOf returns the Lister of a program, nil if b has none.
func ListerOf(b Binding, prog, vers uint32) Lister {
	if l, ok := single(b, prog, vers).(Lister); ok && l.Lists(prog, vers) {
		return l
	}
	return nil
}

// Join returns the binding of several services: for each program the first of b that covers it. A binding
// without [Scope] covers all, so it comes last.
func Join(b ...Binding) Binding { return joined(b) }

type joined []Binding

// of returns the binding of a program: an empty table if there is none.
func (j joined) of(prog, vers uint32) Binding {
	for _, b := range j {
		if Covers(b, prog, vers) {
			return single(b, prog, vers)
		}
	}
	return Table(nil)
}

// single returns what b has for a program. Only that says which optional halves there are.
func single(b Binding, prog, vers uint32) Binding {
	if j, ok := b.(joined); ok {
		return j.of(prog, vers)
	}
	return b
}

func (j joined) Covers(prog, vers uint32) bool { return Covers(j.of(prog, vers), prog, vers) }

func (j joined) Eligible(prog, vers, proc uint32) (arg, result bool) {
	return j.of(prog, vers).Eligible(prog, vers, proc)
}

func (j joined) FindArg(prog, vers, proc uint32, args []byte) (pos, n int, ok bool) {
	return j.of(prog, vers).FindArg(prog, vers, proc, args)
}

func (j joined) FindResult(prog, vers, proc uint32, results []byte) (pos, n int, ok bool) {
	return j.of(prog, vers).FindResult(prog, vers, proc, results)
}

func (j joined) MaxResults(prog, vers, proc uint32, args []byte) (rest, item int, ok bool) {
	return j.of(prog, vers).MaxResults(prog, vers, proc, args)
}

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
