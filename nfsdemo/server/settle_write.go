package server

import (
	"errors"
	"hash/crc32"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// written is WRITE: it was done if the file has its data. Nobody else has changed that part since. The
// data are made durable, whatever was asked for, because they may be in the page cache only.
func (t *settling) written(results []byte) ([]byte, once.Outcome, error) {
	n, err := t.resolve(t.file)
	if errors.Is(err, nfs3.ErrStale) {
		return results, once.NotDone, nil // it cannot run either
	}
	if err != nil {
		return results, once.Unknown, err
	}
	same, err := t.hasData(n)
	if err != nil {
		return results, once.Unknown, err
	}
	if !same {
		return results, once.NotDone, nil
	}
	f := file{node: n}
	verf, err := n.Commit(0, 0)
	if err == nil {
		f.attr, err = n.Attr()
	}
	res := nfs3.WriteRes{Wcc: t.wcc(f), Count: t.write.Count, Committed: t.write.Stable, Verf: verf}
	return res.Append(results), once.Done, err
}

// hasData reports whether the arguments with what the file has now have the sum of those that came.
func (t *settling) hasData(n backend.Node) (bool, error) {
	count := int(t.write.Count)
	head := xdr.AppendUint32(append([]byte(nil), t.in.Args...), t.write.Count)
	if uint64(t.in.Len) != uint64(len(head))+uint64(count)+uint64(xdr.Pad(count)) {
		return false, nil // it was refused
	}
	sum := crc32.Checksum(head, castagnoli)
	buf := make([]byte, min(count, 64<<10))
	for off := 0; off < count; {
		b := buf[:min(len(buf), count-off)]
		k, err := n.Read(b, t.write.Offset+uint64(off))
		if err != nil {
			return false, err
		}
		if k < len(b) {
			return false, nil
		}
		sum = crc32.Update(sum, castagnoli, b)
		off += k
	}
	var pad [3]byte
	return crc32.Update(sum, castagnoli, pad[:xdr.Pad(count)]) == t.in.Sum, nil
}
