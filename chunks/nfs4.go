package chunks

// NFSv4 is the binding of NFS version 4, any minor version (RFC 8267 Section 5.1):
// in a COMPOUND the data of WRITE and the link text of CREATE among arguments, the
// data of READ and the link text of READLINK among results. FindArg and FindResult
// find only the first one of a message; EligibleResults finds all of them, in the
// order in which write chunks are used (RFC 8267 Section 5.2.3).
//
// From the first operation that this package cannot step over, a COMPOUND is carried
// unreduced, which is always allowed.
var NFSv4 Binding = nfs4{}

type nfs4 struct{}

const (
	nfsVersion4  = 4
	procCompound = 1 // the only procedure beside NULL

	// maxRest bounds, in octets, the results of all operations together, without file data
	// and directory entries. Attributes with access control lists are the largest.
	maxRest = 64 << 10
)

var _ Lister = nfs4{}

func (nfs4) Covers(prog, vers uint32) bool { return prog == nfsProgram && vers == nfsVersion4 }

func (b nfs4) Eligible(prog, vers, proc uint32) (arg, result bool) {
	ok := b.Covers(prog, vers) && proc == procCompound
	return ok, ok
}

func (b nfs4) FindArg(prog, vers, proc uint32, args []byte) (pos, n int, ok bool) {
	if arg, _ := b.Eligible(prog, vers, proc); !arg {
		return 0, 0, false
	}
	c := newCompound(args, false)
	return c.eligible()
}

func (b nfs4) FindResult(prog, vers, proc uint32, results []byte) (pos, n int, ok bool) {
	if _, res := b.Eligible(prog, vers, proc); !res {
		return 0, 0, false
	}
	c := newCompound(results, true)
	return c.eligible()
}

// EligibleResults implements [ResultLister].
func (b nfs4) EligibleResults(prog, vers, proc uint32, results []byte, list []Item) []Item {
	if _, res := b.Eligible(prog, vers, proc); !res {
		return list
	}
	c := newCompound(results, true)
	for {
		pos, n, ok := c.eligible()
		if !ok || !whole(results, pos, n) {
			return list
		}
		list = append(list, Item{pos, results[pos : pos+n]})
		c.skip(n)
	}
}

func (b nfs4) MaxResults(prog, vers, proc uint32, args []byte) (rest, item int, ok bool) {
	if !b.Covers(prog, vers) || proc > procCompound {
		return 0, 0, false
	}
	c := newCompound(args, false)
	for {
		_, n, _, more := c.next()
		if !more {
			break
		}
		c.skip(n)
	}
	if c.d.Err() != nil || c.stopped || c.data > maxOctets || c.rest > maxOctets-maxRest {
		return 0, 0, false
	}
	return maxRest + int(c.rest), int(c.data), true
}

func (b nfs4) WalkArgs(prog, vers, proc uint32, args []byte, visit Visit) bool {
	return b.walk(prog, vers, proc, newCompound(args, false), visit)
}

func (b nfs4) WalkResults(prog, vers, proc uint32, results []byte, visit Visit) bool {
	return b.walk(prog, vers, proc, newCompound(results, true), visit)
}

func (b nfs4) walk(prog, vers, proc uint32, c compound, visit Visit) bool {
	if arg, _ := b.Eligible(prog, vers, proc); !arg {
		return true
	}
	for {
		pos, n, _, ok := c.next()
		if !ok {
			return c.d.Err() == nil && !c.stopped
		}
		c.d.Skip(visit(pos, n))
	}
}

// Lists implements [Lister].
func (b nfs4) Lists(prog, vers uint32) bool { return b.Covers(prog, vers) }

// ListArgs implements [Lister]: the data of WRITE and the link text of CREATE.
func (b nfs4) ListArgs(prog, vers, proc uint32, args []byte, visit Visit) bool {
	if arg, _ := b.Eligible(prog, vers, proc); !arg {
		return true
	}
	c := newCompound(args, false)
	return c.list(visit)
}

// ListResults implements [Lister]: the data of READ and the link text of READLINK.
func (b nfs4) ListResults(prog, vers, proc uint32, results []byte, visit Visit) bool {
	if _, res := b.Eligible(prog, vers, proc); !res {
		return true
	}
	c := newCompound(results, true)
	return c.list(visit)
}
