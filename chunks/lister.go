package chunks

// Lister is an optional half of a [Binding] for programs whose messages can have several
// eligible items: it finds them all in octets from which some of them were taken out.
type Lister interface {
	// Lists says whether it knows a program. For others the Find methods of Binding know
	// all there is.
	Lists(prog, vers uint32) bool
	// ListArgs and ListResults call visit for every DDP-eligible item, in order; see
	// [Visit]. ok is false when the octets do not decode up to the last item, at something
	// that cannot be stepped over, and when visit ended the walk. They borrow what they
	// are given.
	ListArgs(prog, vers, proc uint32, args []byte, visit Visit) (ok bool)
	ListResults(prog, vers, proc uint32, results []byte, visit Visit) (ok bool)
}

// ListerOf returns the Lister of a program, nil if b has none.
func ListerOf(b Binding, prog, vers uint32) Lister {
	if l, ok := b.(Lister); ok && l.Lists(prog, vers) {
		return l
	}
	return nil
}

var (
	_ Lister = nfs4{}
	_ Lister = nfs{}
)

func (nfs) Lists(prog, vers uint32) bool { return nfs4{}.Lists(prog, vers) }

func (nfs) ListArgs(prog, vers, proc uint32, args []byte, visit Visit) bool {
	return nfs4{}.ListArgs(prog, vers, proc, args, visit)
}

func (nfs) ListResults(prog, vers, proc uint32, results []byte, visit Visit) bool {
	return nfs4{}.ListResults(prog, vers, proc, results, visit)
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

// list visits the eligible items.
func (c *compound) list(visit Visit) bool {
	for {
		pos, n, ok := c.eligible()
		if !ok {
			return c.d.Err() == nil && !c.stopped
		}
		c.d.Skip(visit(pos, n))
	}
}
