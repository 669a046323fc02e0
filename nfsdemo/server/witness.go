package server

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// witnessVersion is that of the layout in docs/exactly-once.md.
const witnessVersion = 1

// witness is what a call has found before it was executed: what a restart needs to see
// whether it was.
type witness struct {
	fails    nfs3.Status        // what the checks of a change of attributes say
	clock    int64              // of the births of files, ns; 0: there is none
	ids      [2]nfs3.FileHandle // of what the names meant, in the order of the arguments; empty: nothing
	uid, gid uint32             // owner of what is made
	attr     nfs3.OptAttr       // of the file whose attributes change
	set      nfs3.SetAttr       // what they become, or those of what is made
}

// allowed says whether the checks have allowed the call.
func (w *witness) allowed() bool { return w.fails == nfs3.OK }

func (w *witness) append(b []byte) []byte {
	b = xdr.AppendUint32(b, witnessVersion)
	b = xdr.AppendUint32(b, uint32(w.fails))
	b = xdr.AppendInt64(b, w.clock)
	b = xdr.AppendOpaque(xdr.AppendOpaque(b, w.ids[0]), w.ids[1])
	b = xdr.AppendUint32(xdr.AppendUint32(b, w.uid), w.gid)
	return w.set.Append(w.attr.Append(b))
}

// parse reads a witness; the ids are lent. False: of another version, or damaged.
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
