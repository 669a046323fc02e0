package chunks

import "github.com/stag-rdma/stag/xdr"

// Binding is an upper-layer binding (RFC 8166 Section 6): it says which data
// items of which procedures are DDP-eligible, that is, may be reduced, and finds
// them: the first eligible argument of a call and the first eligible result of a
// reply. See [ResultLister] for replies with several.
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

// ResultLister is an optional half of a [Binding] for programs whose replies can
// have several eligible results. EligibleResults appends to list those that are
// whole in results, pad included, in their order. Pos counts from the start of
// results, and Data is a view of results.
type ResultLister interface {
	EligibleResults(prog, vers, proc uint32, results []byte, list []Item) []Item
}

// EligibleResults finds all eligible results of a reply with a binding of any kind.
// See [ResultLister].
func EligibleResults(b Binding, prog, vers, proc uint32, results []byte, list []Item) []Item {
	b = single(b, prog, vers)
	if l, ok := b.(ResultLister); ok {
		return l.EligibleResults(prog, vers, proc, results, list)
	}
	pos, n, ok := b.FindResult(prog, vers, proc, results)
	if !ok || !whole(results, pos, n) {
		return list
	}
	return append(list, Item{pos, results[pos : pos+n]})
}

// whole reports whether n octets at pos and their pad are in b.
func whole(b []byte, pos, n int) bool {
	return n <= len(b)-pos && xdr.Pad(n) <= len(b)-pos-n
}
