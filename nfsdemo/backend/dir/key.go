package dir

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// key is the identity of a file for the lifetime of the file system.
type key struct {
	dev   uint64 // 0: that of the export's root, whose number may change at boot
	ino   uint64
	birth int64 // nanoseconds since 1970, 0 if unknown
}

// stat is the result of one stat call.
type stat struct {
	key  key
	attr nfs3.Attr
}

// Handle layout: magic 4, dev 8, ino 8, birth 8.
const (
	handleMagic = 0x73746731 // "stg1"
	handleSize  = 28
)

// appendHandle appends the handle of k.
func (k key) appendHandle(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, handleMagic)
	b = binary.BigEndian.AppendUint64(b, k.dev)
	b = binary.BigEndian.AppendUint64(b, k.ino)
	return binary.BigEndian.AppendUint64(b, uint64(k.birth))
}

// parseHandle returns the key of a handle, or ErrBadHandle if h never was one.
func parseHandle(h []byte) (key, error) {
	if len(h) != handleSize || binary.BigEndian.Uint32(h) != handleMagic {
		return key{}, nfs3.ErrBadHandle
	}
	return key{
		dev:   binary.BigEndian.Uint64(h[4:]),
		ino:   binary.BigEndian.Uint64(h[12:]),
		birth: int64(binary.BigEndian.Uint64(h[20:])),
	}, nil
}
