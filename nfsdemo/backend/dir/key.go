package dir

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Handle layout: version 1, kind 1, identity, seal 8.
const (
	handleVersion = 2
	handleHead    = 2
	sealSize      = 8
	keySize       = 32 // of Config.Key, at least
	maxID         = backend.MaxHandle - handleHead - sealSize
)

// kindOwn is the kind of an identity that is made of device, inode number and birth time, 8 octets each.
// All other kinds are those of the file system's own handles, which are below (Linux, enum fid_type).
const (
	kindOwn = 0xff
	ownSize = 24
)

// key is the identity of a file for the lifetime of the file system.
type key struct {
	kind, n uint8
	id      [maxID]byte // n octets, then zeros
}

// ownKey makes an identity of kindOwn. dev is 0 for that of the export's root, whose number may change at
// boot; birth is in ns since 1970, 0 if unknown.
func ownKey(dev, ino uint64, birth int64) key {
	k := key{kind: kindOwn, n: ownSize}
	binary.BigEndian.PutUint64(k.id[:], dev)
	binary.BigEndian.PutUint64(k.id[8:], ino)
	binary.BigEndian.PutUint64(k.id[16:], uint64(birth))
	return k
}

// ino returns the inode number in an identity of kindOwn.
func (k *key) ino() uint64 { return binary.BigEndian.Uint64(k.id[8:]) }

// newKey makes an identity of another kind; ok is false if it does not fit.
func newKey(kind int32, id []byte) (k key, ok bool) {
	if kind < 0 || kind >= kindOwn || len(id) > maxID {
		return k, false
	}
	k.kind, k.n = uint8(kind), uint8(len(id))
	copy(k.id[:], id)
	return k, true
}

// stat is the result of one stat call.
type stat struct {
	key   key
	birth int64 // ns since 1970, 0 if unknown
	attr  nfs3.Attr
	fixed bool // immutable or append-only (chattr(1)), which the mode does not show
}

// sealer makes handles of identities. Nobody else can make them, and those of other exports have other
// keys. It is safe for concurrent use.
type sealer struct{ pool sync.Pool }

// mac is an HMAC, with room for its sum.
type mac struct {
	h   hash.Hash
	sum [sha256.Size]byte
}

// newSealer derives the key of the directory path on a file system from a secret. The identity of the file system is
// in the key and not in the handles, where there is no room for it, with that of the directory.
func newSealer(secret []byte, path string, fs []byte) *sealer {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(path))
	h.Write([]byte{0}) // no path has one
	h.Write(fs)
	own := h.Sum(nil)
	s := &sealer{}
	s.pool.New = func() any { return &mac{h: hmac.New(sha256.New, own)} }
	return s
}

// append appends the handle of k.
func (s *sealer) append(b []byte, k *key) []byte {
	at := len(b)
	b = append(b, handleVersion, k.kind)
	b = append(b, k.id[:k.n]...)
	m := s.pool.Get().(*mac)
	defer s.pool.Put(m)
	return append(b, m.of(b[at:])...)
}

// of returns the seal of b.
func (m *mac) of(b []byte) []byte {
	m.h.Reset()
	m.h.Write(b)
	return m.h.Sum(m.sum[:0])[:sealSize]
}

// parse returns the identity in a handle. What cannot be a handle is ErrBadHandle; a handle with a wrong seal
// is ErrStale, like that of a file that is gone, so that nobody learns anything from trying.
func (s *sealer) parse(h []byte) (k key, err error) {
	if len(h) <= handleHead+sealSize || len(h) > backend.MaxHandle || h[0] != handleVersion {
		return k, nfs3.ErrBadHandle
	}
	body, seal := h[:len(h)-sealSize], h[len(h)-sealSize:]
	m := s.pool.Get().(*mac)
	defer s.pool.Put(m)
	if subtle.ConstantTimeCompare(m.of(body), seal) != 1 {
		return k, nfs3.ErrStale
	}
	k.kind, k.n = body[1], uint8(len(body)-handleHead)
	copy(k.id[:], body[handleHead:])
	if k.kind == kindOwn && k.n != ownSize {
		return key{}, nfs3.ErrBadHandle
	}
	return k, nil
}
