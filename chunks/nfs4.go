package chunks

import "github.com/stag-rdma/stag/xdr"

// nfs4 is the binding of NFS version 4. FindArg and FindResult find only the first item of a message; a [Lister] finds
// all of them, in the order in which write chunks are used (RFC 8267 Section 5.2.3).
//
// From the first operation that this package cannot step over, a COMPOUND is carried unreduced, which is always allowed.
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

const (
	opAccess   = 3 // the lowest number
	opCreate   = 6
	opRead     = 25
	opReaddir  = 26
	opReadlink = 27

	// maxCompound bounds the operations looked at. Choice: Linux's client sends at most 8
	// (NFS4_MAX_OPS); RFC 8881 leaves it to the session.
	maxCompound = 128
)

// nfs4Op is the shape of an operation's arguments and of its results after a status
// of 0 (RFC 7531, RFC 5662), one letter per part; "" where there is nothing, and "!"
// where this package does not go on.
//
//	i  4 octets    o  opaque<> or string<>      B  bitmap4
//	q  8 octets    D  the same, DDP-eligible    c  createtype4, of CREATE
//	S  16 octets   h  openflag4                 t  open_claim4
//	                                            g  open_delegation4
type nfs4Op struct{ args, results string }

// nfs4Ops are the operations by number.
var nfs4Ops = [...]nfs4Op{
	3: {"i", "ii"}, 4: {"iS", "S"}, 5: {"qi", "q"}, opCreate: {"coBo", "iqqB"}, // ACCESS CLOSE COMMIT CREATE
	7: {"q", ""}, 8: {"S", ""}, 9: {"B", "Bo"}, 10: {"", "o"}, 11: {"o", "iqq"}, // DELEGPURGE DELEGRETURN GETATTR GETFH LINK
	12: {"!", "!"}, 13: {"!", "!"}, 14: {"iiSqq", "S"}, 15: {"o", ""}, 16: {"", ""}, // LOCK LOCKT LOCKU LOOKUP LOOKUPP
	17: {"Bo", ""}, 18: {"iiiqoht", "SiqqiBg"}, 19: {"i", ""}, 20: {"Si", "S"}, 21: {"Siii", "S"}, // NVERIFY OPEN OPENATTR OPEN_CONFIRM OPEN_DOWNGRADE
	22: {"o", ""}, 23: {"", ""}, 24: {"", ""}, opRead: {"Sqi", "iD"}, opReaddir: {"qqiiB", "!"}, // PUTFH PUTPUBFH PUTROOTFH READ READDIR
	opReadlink: {"", "D"}, 28: {"o", "iqq"}, 29: {"oo", "iqqiqq"}, 30: {"q", ""}, // READLINK REMOVE RENAME RENEW
	31: {"", ""}, 32: {"", ""}, 33: {"o", "!"}, 34: {"SBo", "B"}, 35: {"!", "qq"}, // RESTOREFH SAVEFH SECINFO SETATTR SETCLIENTID
	36: {"qq", ""}, 37: {"Bo", ""}, 38: {"SqiD", "iiq"}, 39: {"qo", ""}, // SETCLIENTID_CONFIRM VERIFY WRITE RELEASE_LOCKOWNER
	40: {"!", ""}, 41: {"!", "!"}, 42: {"!", "!"}, 43: {"!", "!"}, 44: {"S", ""}, // DESTROY_SESSION
	45: {"S", ""}, 46: {"!", "!"}, 47: {"!", "!"}, 48: {"!", "!"}, 49: {"!", "!"}, 50: {"!", "!"}, 51: {"!", "!"}, // FREE_STATEID
	52: {"i", "!"}, 53: {"Siiii", "Siiiii"}, 54: {"!", "!"}, 55: {"!", "!"}, 56: {"!", "!"}, // SECINFO_NO_NAME SEQUENCE
	57: {"q", ""}, 58: {"i", ""}, // DESTROY_CLIENTID RECLAIM_COMPLETE
}

// compound steps through the arguments or results of a COMPOUND, from one
// variable-length item to the next.
type compound struct {
	d       xdr.Decoder
	reply   bool
	head    bool   // the tag has been passed
	ops     uint32 // operations left
	op      uint32 // in progress
	shape   string // what is left of it
	stopped bool   // at an operation that cannot be stepped over

	// What the results of the arguments seen may need, in octets: the data of the first
	// READ or READLINK, and the entries of READDIRs and the data of other READs.
	data, rest uint64
}

func newCompound(b []byte, reply bool) compound {
	c := compound{d: xdr.NewDecoder(b), reply: reply, shape: "o"}
	if reply {
		c.shape = "io" // status, tag
	}
	return c
}

// eligible steps to the next eligible item.
func (c *compound) eligible() (pos, n int, ok bool) {
	for {
		pos, n, eligible, ok := c.next()
		if !ok || eligible {
			return pos, n, ok
		}
		c.skip(n)
	}
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

// skip moves over the data of an item and their pad.
func (c *compound) skip(n int) {
	if n > c.d.Len() {
		c.d.Fail(xdr.ErrShort)
		return
	}
	c.d.Skip(n + xdr.Pad(n))
}

// next steps to the data of the next item, just after its count word.
func (c *compound) next() (pos, n int, eligible, ok bool) {
	for c.d.Err() == nil {
		if c.shape == "" {
			if !c.begin() {
				break
			}
			continue
		}
		letter := c.shape[0]
		c.shape = c.shape[1:]
		switch letter {
		case 'o', 'D':
			if n, ok = countWord(&c.d); !ok {
				c.d.Fail(xdr.ErrRange)
				return 0, 0, false, false
			}
			return c.d.Offset(), n, letter == 'D', true
		case '!':
			c.stopped = true
			return 0, 0, false, false
		default:
			c.part(letter)
		}
	}
	return 0, 0, false, false
}

// begin starts the next operation; false: there is none.
func (c *compound) begin() bool {
	if !c.head {
		c.head = true
		if !c.reply {
			c.d.Skip(4) // minorversion
		}
		if c.ops = c.d.Uint32(); c.ops > maxCompound {
			c.d.Fail(xdr.ErrRange)
		}
		return c.d.Err() == nil
	}
	if c.ops == 0 {
		return false
	}
	c.ops--
	c.op = c.d.Uint32()
	if c.op >= uint32(len(nfs4Ops)) || c.op < opAccess {
		c.shape = "!"
		return c.d.Err() == nil
	}
	if c.op == opReadlink {
		c.expect(maxPath)
	}
	if !c.reply {
		c.shape = nfs4Ops[c.op].args
	} else if c.d.Uint32() == 0 { // status; the operation that fails is the last one
		c.shape = nfs4Ops[c.op].results
	} else {
		c.ops = 0
	}
	return c.d.Err() == nil
}

// part moves over a part of a known size.
func (c *compound) part(letter byte) {
	switch letter {
	case 'i':
		c.count(c.d.Uint32())
	case 'q':
		c.d.Skip(8)
	case 'S':
		c.d.Skip(16)
	case 'B':
		c.d.Skip(4 * c.d.Count(maxOctets/4, 4))
	case 'c':
		switch c.d.Uint32() {
		case 5: // NF4LNK: the link text
			c.shape = "DoBo"
		case 3, 4: // NF4BLK, NF4CHR: specdata4
			c.d.Skip(8)
		}
	case 'h':
		if c.d.Uint32() == 1 { // OPEN4_CREATE
			c.choose(creates[:])
		}
	case 't':
		c.choose(claims[:])
	case 'g':
		c.choose(delegations[:])
	case 'w': // open_none_delegation4: a bool follows two of the reasons
		if why := c.d.Uint32(); why == 1 || why == 2 {
			c.d.Skip(4)
		}
	}
}

// Arms of unions by discriminator (RFC 8881 Sections 18.16.1 and 18.16.2); "w" is
// open_none_delegation4.
var (
	creates     = [...]string{"Bot", "Bot", "qt", "qBot"}       // createhow4, then the claim
	claims      = [...]string{"o", "i", "So", "o", "", "S", ""} // open_claim4
	delegations = [...]string{"", "Siiiio", "Siiqiiio", "w"}    // open_delegation4
)

// choose goes on with the arm of a union.
func (c *compound) choose(arms []string) {
	v := c.d.Uint32()
	if v >= uint32(len(arms)) {
		c.d.Fail(xdr.ErrRange)
		return
	}
	c.shape = arms[v]
}

// count takes note of a word that says how much an operation may return.
func (c *compound) count(v uint32) {
	switch {
	case c.reply:
	case c.op == opRead && c.shape == "":
		c.expect(uint64(v))
	case c.op == opReaddir && c.shape == "B": // maxcount
		c.rest += uint64(v)
	}
}

// expect adds the data of a READ or READLINK.
func (c *compound) expect(n uint64) {
	if c.data == 0 {
		c.data = n
	} else {
		c.rest += n
	}
}
