package pushwrite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/lease"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/xdr"
)

// storeName is the file of the leases in Config.Dir. No log has a file of this name.
const storeName = "leases"

// storeMagic begins the file, and says the version.
const storeMagic = "stagls01"

// ErrStore is a file of leases that is damaged.
var ErrStore = errors.New("pushwrite: the file of the leases is damaged (restore it from a copy; without it the records of the logs beside it cannot be applied)")

// stored is a lease as it is kept.
type stored struct {
	ID    lease.ID
	Log   string
	Grant server.Grant
	Void  bool // its records are not to be applied: somebody has discarded them
}

// store keeps leases in a file: entries are appended, and synced before the lease is used.
//
//	off 0, 8 octets: "stagls01"
//	then entries: length u32 of the body, CRC32C u32 of it, body
//	body: kind u32, lease u64; of a grant, void or not: log string, handle opaque, uid u32, gid u32, gids<16>
//
// Behind the last synced entry a crash may leave anything: an entry that is cut off, or zeros
// where a file system had given room and not written yet. No lease of which anybody was told
// lies there.
type store struct {
	path string

	mu   sync.Mutex // held while the file is written and synced
	f    *os.File
	size int
	err  error // final: fsync is not tried again
}

// Kinds of entries.
const (
	entryGrant = 1
	entryOver  = 2
	entryLast  = 3 // no lease up to this one is granted again
	entryVoid  = 4 // a grant whose records are not to be applied
)

// isGrant says whether an entry is a grant.
func isGrant(kind uint32) bool { return kind == entryGrant || kind == entryVoid }

// maxEntry bounds a body: the longest names, handles and lists of groups.
const maxEntry = 512

// maxGIDs is how many groups AUTH_SYS carries (RFC 5531 Appendix A).
const maxGIDs = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openStore reads the leases there are, and the last that was granted.
func openStore(dir string) (*store, []stored, lease.ID, error) {
	s := &store{path: filepath.Join(dir, storeName)}
	b, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
		b = []byte(storeMagic)
	}
	if err != nil {
		return nil, nil, 0, err
	}
	live, last, err := parseStore(b)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w", s.path, err)
	}
	err = s.rewrite(func() ([]stored, lease.ID) { return live, last }) // without what a crash has left
	return s, live, last, err
}

// parseStore reads the entries of a file.
func parseStore(b []byte) (live []stored, last lease.ID, err error) {
	if len(b) < len(storeMagic) || string(b[:len(storeMagic)]) != storeMagic {
		return nil, 0, ErrStore
	}
	byID := make(map[lease.ID]int)
	for b = b[len(storeMagic):]; len(b) > 0; {
		kind, e, n := parseEntry(b)
		if n == 0 {
			if grantIn(b) {
				return nil, 0, ErrStore
			}
			break
		}
		b = b[n:]
		last = max(last, e.ID)
		switch at, ok := byID[e.ID]; {
		case isGrant(kind) && !ok:
			byID[e.ID] = len(live)
			live = append(live, e)
		case kind == entryOver && ok:
			live[at].ID = 0
			delete(byID, e.ID)
		}
	}
	kept := live[:0]
	for _, e := range live {
		if e.ID != 0 {
			kept = append(kept, e)
		}
	}
	return kept, last, nil
}

// grantIn says whether a grant lies anywhere in b: then what is before it was synced once, and
// has been damaged since.
func grantIn(b []byte) bool {
	for ; len(b) > 8; b = b[1:] {
		if kind, _, n := parseEntry(b); n > 0 && isGrant(kind) {
			return true
		}
	}
	return false
}

// parseEntry reads the entry that b begins with, n octets long; n is 0 if there is none.
func parseEntry(b []byte) (kind uint32, e stored, n int) {
	if len(b) < 8 {
		return 0, e, 0
	}
	size, sum := uint64(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])
	if size > maxEntry || uint64(len(b)-8) < size {
		return 0, e, 0
	}
	body := b[8 : 8+size]
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
	return kind, e, 8 + len(body)
}

// appendEntry appends an entry.
func appendEntry(b []byte, kind uint32, e *stored) []byte {
	at := len(b)
	b = append(b, make([]byte, 8)...)
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
	body := b[at+8:]
	binary.BigEndian.PutUint32(b[at:], uint32(len(body)))
	binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(body, castagnoli))
	return b
}

// appendStore returns a file with these leases alone.
func appendStore(live []stored, last lease.ID) []byte {
	b := appendEntry([]byte(storeMagic), entryLast, &stored{ID: last})
	for i := range live {
		kind := uint32(entryGrant)
		if live[i].Void {
			kind = entryVoid
		}
		b = appendEntry(b, kind, &live[i])
	}
	return b
}

// grant makes a lease durable.
func (s *store) grant(e *stored) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(appendEntry(nil, entryGrant, e)); err != nil {
		return err
	}
	return s.keep(s.f.Sync())
}

// over notes that leases are over. It is not synced: what is forgotten of it costs nothing.
func (s *store) over(ids []lease.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b []byte
	for _, id := range ids {
		b = appendEntry(b, entryOver, &stored{ID: id})
	}
	_ = s.write(b) // an error ends the granting
}

// write appends b; s.mu is held.
func (s *store) write(b []byte) error {
	if s.err != nil {
		return s.err
	}
	n, err := s.f.Write(b)
	s.size += n
	return s.keep(err)
}

func (s *store) keep(err error) error {
	if s.err == nil {
		s.err = err
	}
	return s.err
}

// large says whether the file is worth writing anew for n leases.
func (s *store) large(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && s.size > 1<<20 && s.size > 4*n*maxEntry
}

// rewrite writes the file anew, with the leases that snapshot returns alone. While it runs
// no lease becomes durable, so that none is forgotten.
func (s *store) rewrite(snapshot func() ([]stored, lease.ID)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	b := appendStore(snapshot())
	f, err := os.CreateTemp(filepath.Dir(s.path), "."+storeName+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if s.f != nil {
		_ = s.f.Close() // it is nobody's file any more
	}
	s.f, s.size = f, len(b)
	return s.keep(pmem.SyncDir(filepath.Dir(s.path)))
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fs.ErrClosed
	}
	return s.f.Close()
}
