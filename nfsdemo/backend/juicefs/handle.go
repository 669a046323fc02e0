package juicefs

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Handle layout: version 1, type 1, UUID 16, inode 8, seal 8.
const (
	handleVersion = 1
	uuidSize      = 16
	bodySize      = 2 + uuidSize + 8
	sealSize      = 8
	handleSize    = bodySize + sealSize
)

// keySize is the length in octets of the key that servers share, and of those that are derived from it.
const keySize = sha256.Size

type key [keySize]byte

// derive makes a key for one use.
func (k *key) derive(use string) key { return sha256.Sum256(append(k[:], use...)) }

// seal returns the seal of the body of a handle. All bodies have the same length and most of the sum stays secret, so a
// hash of the key and the body is a MAC.
func (k *key) seal(body []byte) [sealSize]byte {
	var b [keySize + bodySize]byte
	copy(b[:], k[:])
	copy(b[keySize:], body)
	sum := sha256.Sum256(b[:])
	return [sealSize]byte(sum[:])
}

// appendHandle appends the handle of a file.
func (f *FS) appendHandle(b []byte, ino meta.Ino, typ nfs3.FileType) []byte {
	at := len(b)
	b = append(b, handleVersion, byte(typ))
	b = append(b, f.v.uuid[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(ino))
	seal := f.seal.seal(b[at:])
	return append(b, seal[:]...)
}

// parse returns what appendHandle has made a handle of. A wrong seal is ErrStale, as if the file were gone, so that
// nobody learns anything from trying.
func (f *FS) parse(h []byte) (meta.Ino, nfs3.FileType, error) {
	if len(h) != handleSize || h[0] != handleVersion {
		return 0, 0, nfs3.ErrBadHandle
	}
	seal := f.seal.seal(h[:bodySize])
	if subtle.ConstantTimeCompare(seal[:], h[bodySize:]) != 1 || [uuidSize]byte(h[2:]) != f.v.uuid {
		return 0, 0, nfs3.ErrStale
	}
	return meta.Ino(binary.BigEndian.Uint64(h[2+uuidSize:])), nfs3.FileType(h[1]), nil
}
