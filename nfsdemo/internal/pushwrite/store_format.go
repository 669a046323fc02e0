package pushwrite

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/xdr"
)

// A record of the log of leases is an entry, in XDR: kind u32, lease u64; of a grant, void or not: log string,
// handle opaque, uid u32, gid u32, gids<16>. Each entry has two records.
const (
	entryGrant = 1
	entryOver  = 2
	entryLast  = 3 // no lease up to this one is granted again
	entryVoid  = 4 // a grant whose records must not be applied
)

// maxName and maxGIDs limit an entry: the longest name, and as many groups as AUTH_SYS carries (RFC 5531 Appendix A).
const (
	maxName = 255
	maxGIDs = 16
)

// stored is a lease in the store.
type stored struct {
	ID    lease.ID
	Log   string
	Grant server.Grant
	Void  bool // its records were discarded and must not be applied
}

// encodeEntry returns the payload of an entry.
func encodeEntry(kind uint32, e *stored) []byte {
	b := xdr.AppendUint64(xdr.AppendUint32(nil, kind), uint64(e.ID))
	if kind == entryGrant || kind == entryVoid {
		c := &e.Grant.Cred
		b = xdr.AppendOpaque(xdr.AppendString(b, e.Log), e.Grant.File)
		b = xdr.AppendUint32(xdr.AppendUint32(b, c.UID), c.GID)
		gids := c.GIDs[:min(len(c.GIDs), maxGIDs)]
		b = xdr.AppendUint32(b, uint32(len(gids)))
		for _, g := range gids {
			b = xdr.AppendUint32(b, g)
		}
	}
	return b
}

// parseEntry is the reverse of encodeEntry.
func parseEntry(b []byte) (kind uint32, e stored, err error) {
	d := xdr.NewDecoder(b)
	kind, e.ID = d.Uint32(), lease.ID(d.Uint64())
	if kind == entryGrant || kind == entryVoid {
		e.Void = kind == entryVoid
		e.Log = d.String(maxName)
		e.Grant.File = d.Opaque(nfs3.MaxHandle)
		e.Grant.Cred.UID, e.Grant.Cred.GID = d.Uint32(), d.Uint32()
		for range d.Count(maxGIDs, 4) {
			e.Grant.Cred.GIDs = append(e.Grant.Cred.GIDs, d.Uint32())
		}
	}
	if err = d.End(); err == nil && (kind < entryGrant || kind > entryVoid) {
		err = fmt.Errorf("kind %d", kind)
	}
	return kind, e, err
}

// leases is what a log of leases says.
type leases struct {
	live   []stored // not over
	last   lease.ID // no lease up to this one is granted again
	mended int      // entries with one damaged record
}

func (l *leases) snapshot() ([]stored, lease.ID) { return l.live, l.last }

// readLeases reads a log of size octets that nobody is changing. Damage in one place loses nothing. What a crash has
// left behind the last entry was never told to a client, and does no harm. Errors: ErrStore, those of r.
func readLeases(r io.ReaderAt, size int64) (*leases, error) {
	l, byID := new(leases), make(map[lease.ID]stored)
	var seq uint64
	_, err := commitlog.Salvage(r, size, func(r *commitlog.Record, _ bool) error {
		kind, e, err := parseEntry(r.Payload)
		switch {
		case err != nil:
			return fmt.Errorf("record %d: %w: %w", r.Seq, err, ErrStore)
		case (r.Seq+1)/2 > (seq+1)/2+1:
			return fmt.Errorf("no record between %d and %d: %w", seq, r.Seq, ErrStore)
		case r.Seq > seq+1:
			l.mended++
		}
		seq = r.Seq
		l.last = max(l.last, e.ID)
		switch _, ok := byID[e.ID]; {
		case kind == entryOver:
			delete(byID, e.ID)
		case kind != entryLast && !ok:
			byID[e.ID] = e
		}
		return nil
	})
	if _, ok := errors.AsType[*commitlog.FormatError](err); ok {
		err = fmt.Errorf("%w: %w", ErrStore, err)
	}
	l.live = slices.SortedFunc(maps.Values(byID), func(a, b stored) int { return cmp.Compare(a.ID, b.ID) })
	return l, err
}
