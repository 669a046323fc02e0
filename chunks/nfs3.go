package chunks

import "github.com/stag-rdma/stag/xdr"

// NFS is the binding of NFS, versions 3 and 4: [NFSv3], and for version 4, any minor version, that of RFC 8267
// Section 5.1: in a COMPOUND the data of WRITE and the link text of CREATE among arguments, the data of READ and the link
// text of READLINK among results.
var NFS = Join(NFSv3, nfs4{})

// NFSv3 is the binding of NFS version 3 (RFC 8267 Section 4.1): the data of
// WRITE and the path of SYMLINK among arguments, the data of READ and the path
// of READLINK among results. It knows no other program or version: nothing of
// theirs is eligible.
var NFSv3 Binding = nfs3{}

type nfs3 struct{}

// Program and procedures with something eligible or with results of a size that
// depends on the call (RFC 1813).
const (
	nfsProgram = 100003
	nfsVersion = 3

	procLookup      = 3
	procReadlink    = 5
	procRead        = 6
	procWrite       = 7
	procCreate      = 8
	procMkdir       = 9
	procSymlink     = 10
	procMknod       = 11
	procReaddir     = 16
	procReaddirplus = 17
	procCommit      = 21
)

const (
	maxHandle = 64 // NFS3_FHSIZE
	// maxPath is the longest path asked for. Choice: RFC 1813 has no limit;
	// 4096 is PATH_MAX of Linux.
	maxPath = 4096
	// slack covers servers that count the octets of a directory listing in
	// another way; Linux goes about 100 octets over READDIRPLUS's maxcount.
	slack = 1024
)

// maxResults are the largest result bodies, status included, in octets, without
// the data of the eligible result and without the count of directory listings.
var maxResults = [procCommit + 1]int{
	0, 88, 120, 248, 96, 96, 104, 136, 280, 280, 280,
	280, 120, 120, 236, 208, 4 + slack, 4 + slack, 144, 140, 116, 128,
}

func (nfs3) Eligible(prog, vers, proc uint32) (arg, result bool) {
	if prog != nfsProgram || vers != nfsVersion {
		return false, false
	}
	return proc == procWrite || proc == procSymlink, proc == procRead || proc == procReadlink
}

func (b nfs3) FindArg(prog, vers, proc uint32, args []byte) (pos, n int, ok bool) {
	if arg, _ := b.Eligible(prog, vers, proc); !arg {
		return 0, 0, false
	}
	d := xdr.NewDecoder(args)
	d.Opaque(maxHandle)
	if proc == procWrite {
		d.Skip(8 + 4 + 4) // offset, count, stable
	} else {
		d.Opaque(len(args)) // name
		skipSattr(&d)
	}
	return countHere(&d)
}

func (b nfs3) FindResult(prog, vers, proc uint32, results []byte) (pos, n int, ok bool) {
	if _, res := b.Eligible(prog, vers, proc); !res {
		return 0, 0, false
	}
	d := xdr.NewDecoder(results)
	if d.Uint32() != 0 { // status; a failed call has attributes only
		return 0, 0, false
	}
	if d.Bool() {
		d.Skip(84) // fattr3
	}
	if proc == procRead {
		d.Skip(4 + 4) // count, eof
	}
	return countHere(&d)
}

func (nfs3) MaxResults(prog, vers, proc uint32, args []byte) (rest, item int, ok bool) {
	if prog != nfsProgram || vers != nfsVersion || proc > procCommit {
		return 0, 0, false
	}
	rest = maxResults[proc]
	d := xdr.NewDecoder(args)
	switch proc {
	case procReadlink:
		return rest, maxPath, true
	case procRead:
		d.Opaque(maxHandle)
		d.Skip(8) // offset
		item, ok = countWord(&d)
	case procReaddir:
		d.Opaque(maxHandle)
		d.Skip(8 + 8) // cookie, cookieverf
		item, ok = countWord(&d)
	case procReaddirplus:
		d.Opaque(maxHandle)
		d.Skip(8 + 8 + 4) // cookie, cookieverf, dircount
		item, ok = countWord(&d)
	default:
		return rest, 0, true
	}
	switch {
	case !ok || item > maxOctets:
		return 0, 0, false
	case proc == procRead:
		return rest, item, true
	}
	return rest + item, 0, true
}

// skipSattr moves over sattr3: 24 to 60 octets.
func skipSattr(d *xdr.Decoder) {
	for _, size := range [4]int{4, 4, 4, 8} { // mode, uid, gid, size
		if d.Bool() {
			d.Skip(size)
		}
	}
	for range 2 { // atime, mtime
		switch how := d.Uint32(); {
		case how == 2:
			d.Skip(8)
		case how > 2:
			d.Fail(xdr.ErrRange)
		}
	}
}

// countHere reads the count word of an opaque and returns where its data begin.
func countHere(d *xdr.Decoder) (pos, n int, ok bool) {
	if n, ok = countWord(d); !ok {
		return 0, 0, false
	}
	return d.Offset(), n, true
}

// countWord reads a count that fits an int on every machine.
func countWord(d *xdr.Decoder) (int, bool) {
	n := d.Uint32()
	if d.Err() != nil || n > 1<<31-1 {
		return 0, false
	}
	return int(n), true
}

var _ Walker = nfs3{}

func (nfs3) Covers(prog, vers uint32) bool { return prog == nfsProgram && vers == nfsVersion }

// Shapes of NFSv3 messages up to their last variable-length item (RFC 1813
// Section 3.3), one letter per part:
//
//	o  opaque<> or string<>     s  sattr3            w  16 octets (of WRITE)
//	a  post_op_attr             f  post_op_fh3       c  8 octets
//	d  READDIR entries          p  READDIRPLUS entries
var (
	argShapes = [procCommit + 1]string{
		"", "o", "o", "oo", "o", "o", "o", "owo", "oo", "oo", "ooso",
		"oo", "oo", "oo", "oooo", "ooo", "o", "o", "o", "o", "o", "o",
	}
	// Behind a status of 0; other results have no such item.
	resultShapes = [procCommit + 1]string{
		procLookup: "o", procReadlink: "ao", procRead: "aco", procCreate: "f",
		procMkdir: "f", procSymlink: "f", procMknod: "f", procReaddir: "acd", procReaddirplus: "acp",
	}
)

func (b nfs3) WalkArgs(prog, vers, proc uint32, args []byte, visit Visit) bool {
	if !b.Covers(prog, vers) || proc > procCommit {
		return true
	}
	return walk(argShapes[proc], xdr.NewDecoder(args), visit)
}

func (b nfs3) WalkResults(prog, vers, proc uint32, results []byte, visit Visit) bool {
	if !b.Covers(prog, vers) || proc > procCommit {
		return true
	}
	d := xdr.NewDecoder(results)
	if d.Uint32() != 0 {
		return true
	}
	return walk(resultShapes[proc], d, visit)
}

// walk visits the items of a shape.
func walk(shape string, d xdr.Decoder, visit Visit) bool {
	w := walker{d, visit}
	for i := range len(shape) {
		w.part(shape[i])
	}
	return w.d.Err() == nil
}

type walker struct {
	d     xdr.Decoder
	visit Visit
}

func (w *walker) part(letter byte) {
	switch letter {
	case 'o':
		w.item()
	case 's':
		skipSattr(&w.d)
	case 'w':
		w.d.Skip(16)
	case 'a':
		w.attr()
	case 'f':
		w.handle()
	case 'c':
		w.d.Skip(8)
	case 'd', 'p':
		w.entries(letter == 'p')
	}
}

// item visits the item whose count word is next.
func (w *walker) item() {
	if n, ok := countWord(&w.d); ok {
		w.d.Skip(w.visit(w.d.Offset(), n))
	} else {
		w.d.Fail(xdr.ErrRange)
	}
}

func (w *walker) attr() {
	if w.d.Bool() {
		w.d.Skip(84) // fattr3
	}
}

func (w *walker) handle() {
	if w.d.Bool() {
		w.item()
	}
}

// entries walks the list of a directory, of READDIRPLUS if plus.
func (w *walker) entries(plus bool) {
	for w.d.Bool() && w.d.Err() == nil {
		w.d.Skip(8) // fileid
		w.item()
		w.d.Skip(8) // cookie
		if plus {
			w.attr()
			w.handle()
		}
	}
}
