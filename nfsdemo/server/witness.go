package server

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// witnessVersion is that of the layout in docs/exactly-once.md.
const witnessVersion = 1

// witness is what a call found before it was executed. After a restart it shows whether the call
// was executed.
type witness struct {
	fails    nfs3.Status        // result of the checks of a change of attributes
	clock    int64              // time of the clock that gives births, ns; 0: none
	ids      [2]nfs3.FileHandle // the files of the names, in the order of the arguments; empty: none
	uid, gid uint32             // owner of the new object
	attr     nfs3.OptAttr       // of the file whose attributes change
	set      nfs3.SetAttr       // the new attributes, or those of the new object
}

// allowed reports whether the checks have allowed the call.
func (w *witness) allowed() bool { return w.fails == nfs3.OK }

func (w *witness) append(b []byte) []byte {
	b = xdr.AppendUint32(b, witnessVersion)
	b = xdr.AppendUint32(b, uint32(w.fails))
	b = xdr.AppendInt64(b, w.clock)
	b = xdr.AppendOpaque(xdr.AppendOpaque(b, w.ids[0]), w.ids[1])
	b = xdr.AppendUint32(xdr.AppendUint32(b, w.uid), w.gid)
	return w.set.Append(w.attr.Append(b))
}

// parse reads a witness, whose ids alias b. It returns false for another version or damage.
func (w *witness) parse(b []byte) bool {
	d := xdr.NewDecoder(b)
	v := d.Uint32()
	w.fails, w.clock = nfs3.Status(d.Uint32()), d.Int64()
	w.ids[0], w.ids[1] = d.Opaque(nfs3.MaxHandle), d.Opaque(nfs3.MaxHandle)
	w.uid, w.gid = d.Uint32(), d.Uint32()
	if w.attr.Parse(&d) != nil || w.set.Parse(&d) != nil {
		return false
	}
	return v == witnessVersion && d.End() == nil
}
