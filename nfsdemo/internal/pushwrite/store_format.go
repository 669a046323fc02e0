package pushwrite

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// The file of the leases:
//
//	off 0, 8 octets: "stagls02"
//	then entries, each of them twice, so that damage in one place loses none:
//	length u32 of the body, CRC32C u32 of it, body
//	body: kind u32, lease u64; of a grant, void or not: log string, handle opaque, uid u32, gid u32, gids<16>
//
// A rewritten file ends with an entryLast, and was synced up to there. In a file "stagls01" each entry
// is stored once.
const (
	storeMagic    = "stagls02"
	storeMagicOld = "stagls01"
)

// Kinds of entries.
const (
	entryGrant = 1
	entryOver  = 2
	entryLast  = 3 // no lease up to this one is granted again; everything before it was synced
	entryVoid  = 4 // a grant whose records must not be applied
)

// isGrant reports whether an entry is a grant.
func isGrant(kind uint32) bool { return kind == entryGrant || kind == entryVoid }

// Lengths in octets: of the head before a body, and of both copies of an entryOver.
const (
	entryHead = 8
	overLen   = 2 * (entryHead + 12)
)

// maxEntry limits a body: the longest name, handle and list of groups.
const maxEntry = 512

// maxGIDs is how many groups AUTH_SYS carries (RFC 5531 Appendix A).
const maxGIDs = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// leases is the content of the file.
type leases struct {
	live   []stored // not over
	last   lease.ID // no lease up to this one is granted again
	torn   int      // octets at the end that are not an entry
	mended int      // entries with one damaged copy
}

func (l *leases) snapshot() ([]stored, lease.ID) { return l.live, l.last }

// parseStore reads the entries of a file. A torn end was never synced, so no client was told about leases
// in it.
func parseStore(b []byte) (*leases, error) {
	old := len(b) >= len(storeMagic) && string(b[:len(storeMagic)]) == storeMagicOld
	if !old && (len(b) < len(storeMagic) || string(b[:len(storeMagic)]) != storeMagic) {
		return nil, fmt.Errorf("does not begin with %q: %w", storeMagic, ErrStore)
	}
	l, byID := new(leases), make(map[lease.ID]stored)
	for at := len(storeMagic); at < len(b); {
		kind, e, n, mended := parsePair(b[at:], old)
		if n == 0 {
			if syncedIn(b[at:]) {
				return nil, fmt.Errorf("octet %d: %w", at, ErrStore)
			}
			l.torn = len(b) - at
			l.last = max(l.last, l.last+lease.ID(l.torn)) // above all leases that were granted there
			break
		}
		at += n
		if mended {
			l.mended++
		}
		l.last = max(l.last, e.ID)
		switch _, ok := byID[e.ID]; {
		case isGrant(kind) && !ok:
			byID[e.ID] = e
		case kind == entryOver:
			delete(byID, e.ID)
		}
	}
	l.live = slices.SortedFunc(maps.Values(byID), func(a, b stored) int { return cmp.Compare(a.ID, b.ID) })
	return l, nil
}

// parsePair reads the entry whose two copies are at the start of b and take n octets; n is 0 if there is
// none. A copy of the last entry may be truncated.
func parsePair(b []byte, once bool) (kind uint32, e stored, n int, mended bool) {
	kind, e, n = parseEntry(b)
	if once {
		return kind, e, n, false
	}
	if n > 0 {
		both := min(2*n, len(b))
		return kind, e, both, string(b[n:both]) != string(b[:n])
	}
	for at := entryHead; at <= entryHead+maxEntry && at < len(b); at++ {
		if kind, e, n = parseEntry(b[at:]); n == at {
			return kind, e, 2 * n, true
		}
	}
	return 0, e, 0, false
}

// syncedIn reports whether b contains an entry that shows that everything before it was synced. Then what
// cannot be read there was damaged later.
func syncedIn(b []byte) bool {
	for ; len(b) > entryHead; b = b[1:] {
		if kind, _, n := parseEntry(b); n > 0 && kind != entryOver {
			return true
		}
	}
	return false
}

// parseEntry reads the entry at the start of b, which takes n octets; n is 0 if there is none.
func parseEntry(b []byte) (kind uint32, e stored, n int) {
	if len(b) < entryHead {
		return 0, e, 0
	}
	size, sum := uint64(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])
	if size > maxEntry || uint64(len(b)-entryHead) < size {
		return 0, e, 0
	}
	body := b[entryHead : entryHead+size]
	if crc32.Checksum(body, castagnoli) != sum {
		return 0, e, 0
	}
	d := xdr.NewDecoder(body)
	kind, e.ID = d.Uint32(), lease.ID(d.Uint64())
	if isGrant(kind) {
		e.Void = kind == entryVoid
		e.Log = d.String(maxEntry)
		e.Grant.File = d.Opaque(nfs3.MaxHandle)
		e.Grant.Cred.UID, e.Grant.Cred.GID = d.Uint32(), d.Uint32()
		for range d.Count(maxGIDs, 4) {
			e.Grant.Cred.GIDs = append(e.Grant.Cred.GIDs, d.Uint32())
		}
	}
	if d.End() != nil || kind < entryGrant || kind > entryVoid {
		return 0, e, 0
	}
	return kind, e, entryHead + len(body)
}

// appendEntry appends an entry, twice.
func appendEntry(b []byte, kind uint32, e *stored) []byte {
	at := len(b)
	b = append(b, make([]byte, entryHead)...)
	b = xdr.AppendUint64(xdr.AppendUint32(b, kind), uint64(e.ID))
	if isGrant(kind) {
		c := &e.Grant.Cred
		b = xdr.AppendOpaque(xdr.AppendString(b, e.Log), e.Grant.File)
		b = xdr.AppendUint32(xdr.AppendUint32(b, c.UID), c.GID)
		gids := c.GIDs[:min(len(c.GIDs), maxGIDs)]
		b = xdr.AppendUint32(b, uint32(len(gids)))
		for _, g := range gids {
			b = xdr.AppendUint32(b, g)
		}
	}
	body := b[at+entryHead:]
	binary.BigEndian.PutUint32(b[at:], uint32(len(body)))
	binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(body, castagnoli))
	return append(b, b[at:]...)
}

// appendStore returns the content of a file with only these leases.
func appendStore(live []stored, last lease.ID) []byte {
	b := []byte(storeMagic)
	for i := range live {
		kind := uint32(entryGrant)
		if live[i].Void {
			kind = entryVoid
		}
		b = appendEntry(b, kind, &live[i])
	}
	return appendEntry(b, entryLast, &stored{ID: last})
}
