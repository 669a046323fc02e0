package pushwrite

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// joinOctets limits the octets of adjacent records that are written as one: a write costs as much as
// copying 16 KiB.
const joinOctets = 64 << 10

// piece is what is written with one call.
type piece struct {
	f   file
	g   *grant
	off uint64
	p   []byte
	n   int // number of its records
}

// write writes the first of rs to its file, together with the records after it that continue where it
// ends. It returns how many it has written. If they cannot be written together, it writes the first one
// alone, so that an error is always about one record.
func (a *applier) write(rs []*commitlog.Record, wrote map[file]*writings) (int, error) {
	w, err := a.piece(rs[0])
	if err != nil {
		return 0, err
	}
	if j := a.join(w, rs[1:]); j.n > 1 && a.put(&j, wrote) == nil {
		return j.n, nil
	}
	if err := a.put(&w, wrote); err != nil {
		return 0, err
	}
	return w.n, nil
}

// piece parses a record and finds its file.
func (a *applier) piece(r *commitlog.Record) (piece, error) {
	rec, err := pushfile.ParseRecord(r.Payload)
	if err != nil {
		return piece{}, &forgedError{err}
	}
	f, g, err := a.s.admit(a.l, &rec, r.Pos)
	if err != nil {
		return piece{}, &forgedError{err}
	}
	return piece{f, g, rec.Offset, rec.Data, 1}, nil
}

// join returns w together with the first records of rs that continue where it ends, under the same
// lease. It is valid until the next call.
func (a *applier) join(w piece, rs []*commitlog.Record) piece {
	for _, r := range rs {
		next, err := a.piece(r)
		end := w.off + uint64(len(w.p))
		if err != nil || next.g != w.g || next.off != end || len(w.p)+len(next.p) > joinOctets {
			break
		}
		if w.n == 1 {
			a.joined = append(a.joined[:0], w.p...)
		}
		a.joined = append(a.joined, next.p...)
		w.p, w.n = a.joined, w.n+1
	}
	return w
}

// put writes a piece to its file, unless somebody has discarded it.
func (a *applier) put(w *piece, wrote map[file]*writings) error {
	if w.g.Void {
		a.s.ctr.discarded.Add(uint64(w.n))
		return nil
	}
	verf, err := a.s.files.WriteGrant(&w.g.Grant, w.p, w.off)
	switch is := wrote[w.f]; {
	case errors.Is(err, nfs3.ErrFBig): // beyond the largest file
		return &forgedError{err}
	case err != nil:
		return err
	case is == nil:
		wrote[w.f] = &writings{&w.g.Grant, verf}
	case is.verf != verf:
		return errVerf
	}
	return nil
}
