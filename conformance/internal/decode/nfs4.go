package decode

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// Compound is an NFSv4 COMPOUND or CB_COMPOUND, decoded down to its operations (RFC 8881 Sections 16.2 and
// 20.1).
type Compound struct {
	Tag    string
	Minor  uint32 // of a call: minorversion
	Status uint32 // of a reply: the status of the last operation
	NumOps uint32 // operations announced

	// Ops are the operations that could be reached, in order. Err says why there are fewer than NumOps, or
	// why the arguments or results of the last one could not be skipped.
	Ops []NFSOp
	Err error
}

// NFSOp is one operation of a Compound.
type NFSOp struct {
	Num    uint32
	Name   string // "PUTFH"; "op-99" if no RFC defines it
	Status uint32 // of a result
	// Body holds the arguments, or the results after the status. Lent with the event.
	Body []byte
	// Moved is how many of its octets travel in a chunk and are not in Body.
	Moved int
}

// maxOps bounds the operations kept of one COMPOUND; servers allow a few tens.
const maxOps = 1024

// compounds walks a COMPOUND.
type compounds struct {
	walker
	c     *Compound
	ops   map[uint32]nfsOp
	reply bool
	op    *NFSOp // in progress
}

// newCompound decodes the arguments or results of a COMPOUND. moved reports whether the item at which d
// stands travels in a chunk; it is nil if everything is in body.
func newCompound(body []byte, callback, reply bool, moved func(at, n int) bool) *Compound {
	w := compounds{walker: walker{d: xdr.NewDecoder(body)}, c: new(Compound), ops: nfs4Ops, reply: reply}
	if callback {
		w.ops = nfs4Callbacks
	}
	w.moved = func(n int) bool {
		if moved == nil || !moved(w.d.Offset(), n) {
			return false
		}
		w.op.Moved += n
		return true
	}
	w.head(callback)
	for i := uint32(0); i < w.c.NumOps && w.c.Err == nil; i++ {
		w.next(body)
	}
	if n := w.d.Len(); n > 0 && w.c.Err == nil {
		w.c.Err = fmt.Errorf("%w: %d octets after the operations", ErrTrailing, n)
	}
	return w.c
}

// head reads the fields before the operations.
func (w *compounds) head(callback bool) {
	c, d := w.c, &w.d
	if w.reply {
		c.Status = d.Uint32()
	}
	c.Tag = d.String(d.Len())
	if !w.reply {
		c.Minor = d.Uint32()
		if callback {
			d.Skip(4) // callback_ident
		}
	}
	c.NumOps = d.Uint32()
	c.Err = d.Err()
}

// next reads one operation.
func (w *compounds) next(body []byte) {
	c, d := w.c, &w.d
	if len(c.Ops) >= maxOps {
		c.Err = fmt.Errorf("%w: more than %d operations", ErrTooLong, maxOps)
		return
	}
	num := d.Uint32()
	if c.Err = d.Err(); c.Err != nil {
		return
	}
	spec, known := w.ops[num]
	if !known {
		spec.name = "op-" + decimal(num)
	}
	c.Ops = append(c.Ops, NFSOp{Num: num, Name: spec.name})
	w.op = &c.Ops[len(c.Ops)-1]
	if !known {
		c.Err = fmt.Errorf("operation %d: %w", num, xdr.ErrRange)
		return
	}
	from := d.Offset()
	if w.reply {
		status := *d // the union of the results begins with it
		w.op.Status = status.Uint32()
		from += 4
		w.run("@{0 " + spec.res + "|" + spec.fail + "_ }")
	} else {
		w.run(spec.args)
	}
	if c.Err = d.ErrIn(spec.name); c.Err == nil {
		w.op.Body = body[from:d.Offset():d.Offset()]
	}
}

// nfsOp describes an operation of NFSv4, in the language of walker.
type nfsOp struct {
	name string
	args string
	res  string // after the status, if that is NFS4_OK
	fail string // other arms of the union of results, and for SETATTR what follows any status
}

// nfs4Ops are the operations of COMPOUND by number: 3 to 39 RFC 7531, 40 to 58 RFC 5662, 59 to 71
// RFC 7863, 72 to 75 RFC 8276.
var nfs4Ops = map[uint32]nfsOp{
	3:  {name: "ACCESS", args: "i", res: "ii"},
	4:  {name: "CLOSE", args: "iS", res: "S"},
	5:  {name: "COMMIT", args: "qi", res: "V"},
	6:  {name: "CREATE", args: "@{3 ii|4 ii|5 D|_ }oF", res: "iqqB"},
	7:  {name: "DELEGPURGE", args: "q"},
	8:  {name: "DELEGRETURN", args: "S"},
	9:  {name: "GETATTR", args: "B", res: "F"},
	10: {name: "GETFH", res: "o"},
	11: {name: "LINK", args: "o", res: "iqq"},
	12: {name: "LOCK", args: "iiqq@{1 iSiqo|0 Si}", res: "S", fail: "10010 qqiqo|"},
	13: {name: "LOCKT", args: "iqqqo", fail: "10010 qqiqo|"},
	14: {name: "LOCKU", args: "iiSqq", res: "S"},
	15: {name: "LOOKUP", args: "o"},
	16: {name: "LOOKUPP"},
	17: {name: "NVERIFY", args: "F"},
	18: {
		name: "OPEN", args: "iiiqo@{1 @{0 F|1 F|2 V|3 VF}|_ }@{0 o|1 i|2 So|3 o|4 |5 S|6 }", res: "SiqqiBG",
	},
	19: {name: "OPENATTR", args: "i"},
	20: {name: "OPEN_CONFIRM", args: "Si", res: "S"},
	21: {name: "OPEN_DOWNGRADE", args: "Siii", res: "S"},
	22: {name: "PUTFH", args: "o"},
	23: {name: "PUTPUBFH"},
	24: {name: "PUTROOTFH"},
	25: {name: "READ", args: "Sqi", res: "iD"},
	26: {name: "READDIR", args: "qViiB", res: "V+{qoF}i"},
	27: {name: "READLINK", res: "D"},
	28: {name: "REMOVE", args: "o", res: "iqq"},
	29: {name: "RENAME", args: "oo", res: "iqqiqq"},
	30: {name: "RENEW", args: "q"},
	31: {name: "RESTOREFH"},
	32: {name: "SAVEFH"},
	33: {name: "SECINFO", args: "o", res: "*{@{6 oii|_ }}"},
	34: {name: "SETATTR", args: "SF", res: "B", fail: "_ B|"},
	35: {name: "SETCLIENTID", args: "Voiooi", res: "qV", fail: "10017 oo|"},
	36: {name: "SETCLIENTID_CONFIRM", args: "qV"},
	37: {name: "VERIFY", args: "F"},
	38: {name: "WRITE", args: "SqiD", res: "iiV"},
	39: {name: "RELEASE_LOCKOWNER", args: "qo"},

	40: {name: "BACKCHANNEL_CTL", args: "i*{P}"},
	41: {name: "BIND_CONN_TO_SESSION", args: "Sii", res: "Sii"},
	42: {name: "EXCHANGE_ID", args: "Voi@{0 |1 BB|2 BB*{o}*{o}ii}*{ooqi}", res: "qii@{0 |1 BB|2 BBiiii*{o}}qoo*{ooqi}"},
	43: {name: "CREATE_SESSION", args: "qiiCCi*{P}", res: "SiiCC"},
	44: {name: "DESTROY_SESSION", args: "S"},
	45: {name: "FREE_STATEID", args: "S"},
	46: {name: "GET_DIR_DELEGATION", args: "iBqiqiBB", res: "@{0 VSBBB|1 i}"},
	47: {name: "GETDEVICEINFO", args: "SiiB", res: "ioB", fail: "10005 i|"},
	48: {name: "GETDEVICELIST", args: "iiqV", res: "qV*{S}i"},
	49: {name: "LAYOUTCOMMIT", args: "qqiS?{q}?{qi}io", res: "?{q}"},
	50: {name: "LAYOUTGET", args: "iiiqqqSi", res: "iS*{qqiio}", fail: "10058 i|"},
	51: {name: "LAYOUTRETURN", args: "iii@{1 qqSo|2 |3 }", res: "?{S}"},
	52: {name: "SECINFO_NO_NAME", args: "i", res: "*{@{6 oii|_ }}"},
	53: {name: "SEQUENCE", args: "Siiii", res: "Siiiii"},
	54: {name: "SET_SSV", args: "oo", res: "o"},
	55: {name: "TEST_STATEID", args: "*{S}", res: "*{i}"},
	56: {name: "WANT_DELEGATION", args: "i@{1 i|4 |6 }", res: "G"},
	57: {name: "DESTROY_CLIENTID", args: "q"},
	58: {name: "RECLAIM_COMPLETE", args: "i"},

	59: {name: "ALLOCATE", args: "Sqq"},
	60: {name: "COPY", args: "SSqqqii*{N}", res: "Wii", fail: "10094 ii|"},
	61: {name: "COPY_NOTIFY", args: "SN", res: "qiS*{N}"},
	62: {name: "DEALLOCATE", args: "Sqq"},
	63: {name: "IO_ADVISE", args: "SqqB", res: "B"},
	64: {name: "LAYOUTERROR", args: "qqS*{Sii}"},
	65: {name: "LAYOUTSTATS", args: "qqSqqqqSio"},
	66: {name: "OFFLOAD_CANCEL", args: "S"},
	67: {name: "OFFLOAD_STATUS", args: "S", res: "q*{i}"},
	68: {name: "READ_PLUS", args: "Sqi", res: "i*{@{0 qD|1 qq}}"},
	69: {name: "SEEK", args: "Sqi", res: "iq"},
	70: {name: "WRITE_SAME", args: "Siqqqqiqo", res: "W"},
	71: {name: "CLONE", args: "SSqqq"},
	72: {name: "GETXATTR", args: "o", res: "o"},
	73: {name: "SETXATTR", args: "ioo", res: "iqq"},
	74: {name: "LISTXATTRS", args: "qi", res: "q*{o}i"},
	75: {name: "REMOVEXATTR", args: "o", res: "iqq"},

	10044: {name: "ILLEGAL"},
}

// nfs4Callbacks are the operations of CB_COMPOUND by number.
var nfs4Callbacks = map[uint32]nfsOp{
	3:     {name: "CB_GETATTR", args: "oB", res: "F"},
	4:     {name: "CB_RECALL", args: "Sio"},
	5:     {name: "CB_LAYOUTRECALL", args: "iii@{1 oqqS|2 qq|3 }"},
	6:     {name: "CB_NOTIFY", args: "So*{Bo}"},
	7:     {name: "CB_PUSH_DELEG", args: "oG"},
	8:     {name: "CB_RECALL_ANY", args: "iB"},
	9:     {name: "CB_RECALLABLE_OBJ_AVAIL", args: "iB"},
	10:    {name: "CB_RECALL_SLOT", args: "i"},
	11:    {name: "CB_SEQUENCE", args: "Siiii*{S*{ii}}", res: "Siiii"},
	12:    {name: "CB_WANTS_CANCELLED", args: "ii"},
	13:    {name: "CB_NOTIFY_LOCK", args: "oqo"},
	14:    {name: "CB_NOTIFY_DEVICEID", args: "*{Bo}"},
	15:    {name: "CB_OFFLOAD", args: "oS@{0 W|_ q}"},
	10044: {name: "CB_ILLEGAL"},
}

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// nfs4Low are the status codes that NFSv4 shares with errno.
var nfs4Low = map[uint32]string{
	1: "PERM", 2: "NOENT", 5: "IO", 6: "NXIO", 13: "ACCESS", 17: "EXIST", 18: "XDEV", 20: "NOTDIR", 21: "ISDIR",
	22: "INVAL", 27: "FBIG", 28: "NOSPC", 30: "ROFS", 31: "MLINK", 63: "NAMETOOLONG", 66: "NOTEMPTY", 69: "DQUOT",
	70: "STALE",
}

// nfs4High are those from 10001 on, in order (RFC 7531, RFC 5662, RFC 7863, RFC 8276); "-" is
// not assigned.
var nfs4High = strings.Fields(`
BADHANDLE - BAD_COOKIE NOTSUPP TOOSMALL SERVERFAULT BADTYPE DELAY SAME DENIED EXPIRED LOCKED GRACE FHEXPIRED
SHARE_DENIED WRONGSEC CLID_INUSE RESOURCE MOVED NOFILEHANDLE MINOR_VERS_MISMATCH STALE_CLIENTID STALE_STATEID
OLD_STATEID BAD_STATEID BAD_SEQID NOT_SAME LOCK_RANGE SYMLINK RESTOREFH LEASE_MOVED ATTRNOTSUPP NO_GRACE
RECLAIM_BAD RECLAIM_CONFLICT BADXDR LOCKS_HELD OPENMODE BADOWNER BADCHAR BADNAME BAD_RANGE LOCK_NOTSUPP
OP_ILLEGAL DEADLOCK FILE_OPEN ADMIN_REVOKED CB_PATH_DOWN BADIOMODE BADLAYOUT BAD_SESSION_DIGEST BADSESSION
BADSLOT COMPLETE_ALREADY CONN_NOT_BOUND_TO_SESSION DELEG_ALREADY_WANTED BACK_CHAN_BUSY LAYOUTTRYLATER
LAYOUTUNAVAILABLE NOMATCHING_LAYOUT RECALLCONFLICT UNKNOWN_LAYOUTTYPE SEQ_MISORDERED SEQUENCE_POS REQ_TOO_BIG
REP_TOO_BIG REP_TOO_BIG_TO_CACHE RETRY_UNCACHED_REP UNSAFE_COMPOUND TOO_MANY_OPS OP_NOT_IN_SESSION
HASH_ALG_UNSUPP - CLIENTID_BUSY PNFS_IO_HOLE SEQ_FALSE_RETRY BAD_HIGH_SLOT DEADSESSION ENCR_ALG_UNSUPP
PNFS_NO_LAYOUT NOT_ONLY_OP WRONG_CRED WRONG_TYPE DIRDELEG_UNAVAIL REJECT_DELEG RETURNCONFLICT DELEG_REVOKED
PARTNER_NOTSUPP PARTNER_NO_AUTH UNION_NOTSUPP OFFLOAD_DENIED WRONG_LFS BADLABEL OFFLOAD_NO_REQS NOXATTR
XATTR2BIG`)

// nfs4Status returns the name of a status of NFSv4, or its number.
func nfs4Status(code uint32) string {
	name := nfs4Low[code]
	if i := int64(code) - 10001; i >= 0 && i < int64(len(nfs4High)) && nfs4High[i] != "-" {
		name = nfs4High[i]
	}
	switch {
	case code == 0:
		return "NFS4_OK"
	case name == "":
		return fmt.Sprintf("nfsstat4(%d)", code)
	}
	return "NFS4ERR_" + name
}

// walker skips XDR items by a description, to find what follows them. The letters:
//
//	i q      4, 8 octets (integer, hyper)
//	V S      8, 16 octets (verifier; stateid, session or device)
//	o        opaque or string of variable length
//	D        the same, of the kind that may travel in a chunk (RFC 8267 Section 5)
//	*{x}     counted array of x
//	?{x}     x if the boolean before it is true
//	+{x}     list of x, each with a true boolean in front, ended by a false one
//	@{1 x|2 y|_ z}  x, y or z by the word before it
//	B F P C N W G   what macros says
//
// An item that the description does not allow is an error of the decoder.
type walker struct {
	d     xdr.Decoder
	moved func(n int) bool // reports whether the D of n octets at which d stands is in a chunk instead
}

// macros are the structures that many operations of NFSv4 share (RFC 7531, RFC 5662, RFC 7863).
var macros = map[byte]string{
	'B': "*{i}",                                               // bitmap4
	'F': "*{i}o",                                              // fattr4
	'P': "@{0 |1 ioii*{i}|6 ioo}",                             // callback_sec_parms4
	'C': "iiiiii*{i}",                                         // channel_attrs4
	'N': "@{1 o|2 o|3 oo}",                                    // netloc4
	'W': "*{S}qiV",                                            // write_response4
	'G': "@{0 |1 Siiiio|2 Si@{1 q|2 ii}iiio|3 @{1 i|2 i|_ }}", // open_delegation4
}

// run skips what desc describes.
func (w *walker) run(desc string) {
	for i := 0; i < len(desc) && w.d.Err() == nil; i++ {
		c := desc[i]
		if w.item(c) {
			continue
		}
		x := braced(desc[i+1:])
		i += len(x) + 2
		switch c {
		case '*':
			for n := w.d.Uint32(); n > 0 && w.d.Err() == nil; n-- {
				w.run(x)
			}
		case '?':
			if w.d.Bool() {
				w.run(x)
			}
		case '+':
			for w.d.Bool() {
				w.run(x)
			}
		case '@':
			w.union(x)
		}
	}
}

// item skips the item that one letter stands for; it returns false for a letter with braces.
func (w *walker) item(c byte) bool {
	switch c {
	case 'i':
		w.d.Skip(4)
	case 'q', 'V':
		w.d.Skip(8)
	case 'S':
		w.d.Skip(16)
	case 'o':
		w.opaque(int64(w.d.Uint32()))
	case 'D':
		if n := w.d.Uint32(); w.moved == nil || !w.moved(int(n)) {
			w.opaque(int64(n))
		}
	case '*', '?', '+', '@':
		return false
	default:
		w.run(macros[c])
	}
	return true
}

// opaque skips n octets and their roundup.
func (w *walker) opaque(n int64) {
	if n = (n + 3) &^ 3; n > int64(w.d.Len()) {
		w.d.Fail(xdr.ErrShort)
		return
	}
	w.d.Skip(int(n))
}

// union skips the arm that the next word selects.
func (w *walker) union(arms string) {
	tag := decimal(w.d.Uint32())
	for arms != "" {
		arm := topLevel(arms)
		arms = strings.TrimPrefix(arms[len(arm):], "|")
		label, x, _ := strings.Cut(arm, " ")
		if label == tag || label == "_" {
			w.run(x)
			return
		}
	}
	w.d.Fail(xdr.ErrRange)
}

// braced returns what stands between the brace that s begins with and its partner.
func braced(s string) string {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return s[1:i]
			}
		}
	}
	return ""
}

// topLevel returns s up to the first bar that is in no braces.
func topLevel(s string) string {
	depth := 0
	for i := range len(s) {
		switch {
		case s[i] == '{':
			depth++
		case s[i] == '}':
			depth--
		case s[i] == '|' && depth == 0:
			return s[:i]
		}
	}
	return s
}

// isCompound reports whether a procedure is COMPOUND of NFSv4, or CB_COMPOUND.
func (r *RPC) isCompound() bool {
	return r.Proc == 1 && (r.Prog == nfs3.Program && r.Vers == 4 || r.Prog == progCallback)
}

// compound walks the operations. What travels in chunks is skipped; if padding of an RDMA_MSGP may be left,
// nothing is known.
func (r *RPC) compound(h *rpcrdma.Header) {
	if r.Err != nil || r.Reply == nil && r.Call == nil || r.pads {
		return
	}
	var moved func(at, n int) bool
	switch {
	case r.Whole || h == nil:
	case r.IsReply:
		moved = movedResults(h.Write)
	default:
		moved = movedArguments(h.Read, r.head)
	}
	r.Compound = newCompound(r.Body, r.Prog == progCallback, r.IsReply, moved)
	r.Err = r.Compound.Err
}

// movedResults returns a function that tells which results are in Write chunks: each eligible result takes
// the next chunk (RFC 8267 Section 5.4).
func movedResults(list []chunks.WriteChunk) func(at, n int) bool {
	return func(_, n int) bool {
		if len(list) == 0 {
			return false
		}
		room := list[0].Room()
		list = list[1:]
		return n > 0 && room >= uint64(n)
	}
}

// movedArguments returns a function that tells which arguments are in Read chunks: those whose data would be
// at the Position of a chunk. head is the length of the call before its arguments.
func movedArguments(list []chunks.ReadSegment, head int) func(at, n int) bool {
	return func(at, n int) bool {
		here := func(s chunks.ReadSegment) bool { return int64(s.Position) == int64(head)+int64(at) }
		if !slices.ContainsFunc(list, here) {
			return false
		}
		head += n + xdr.Pad(n)
		return true
	}
}
