package chunks

import "github.com/stag-rdma/stag/xdr"

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
