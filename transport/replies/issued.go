package replies

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/stag-rdma/stag/transport/rpc"
)

// Issued is a call, as noted in the log of calls.
type Issued struct {
	Epoch  uint32            // of the life of the client that has called
	XID    uint32            // with Epoch, the key: see Record
	Prog   uint32            // what was called
	Vers   uint32            //
	Proc   uint32            //
	Digest [sha256.Size]byte // of the call: see Digest
}

// callKey names a call among all calls of a client.
type callKey struct{ epoch, xid uint32 }

func (i *Issued) key() callKey { return callKey{i.Epoch, i.XID} }

// A record of the log of calls begins with its kind.
//
//	off 0, 4 octets: noteIssued, of one call
//	off 4, 4 each: Epoch, XID, Prog, Vers, Proc
//	off 24, 32: Digest
//
//	off 0, 4 octets: noteOver, of calls that need no answer anymore
//	off 4, 8 each: Epoch, XID
const (
	noteIssued = 1
	noteOver   = 2

	issuedLen = 24 + sha256.Size
	overLen   = 8 // of each
)

func (i *Issued) append(b []byte) []byte {
	for _, v := range [...]uint32{noteIssued, i.Epoch, i.XID, i.Prog, i.Vers, i.Proc} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, i.Digest[:]...)
}

// appendOver appends the record of calls that are over.
func appendOver(b []byte, keys []callKey) []byte {
	b = binary.BigEndian.AppendUint32(b, noteOver)
	for _, k := range keys {
		b = binary.BigEndian.AppendUint32(b, k.epoch)
		b = binary.BigEndian.AppendUint32(b, k.xid)
	}
	return b
}

// parseNote reads a record of the log of calls: a call, or those that are over. It returns false if it is
// neither.
func parseNote(b []byte) (i *Issued, over []callKey, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	switch {
	case u32(0) == noteIssued && len(b) == issuedLen:
		return &Issued{u32(4), u32(8), u32(12), u32(16), u32(20), [sha256.Size]byte(b[24:])}, nil, true
	case u32(0) == noteOver && len(b)%overLen == 4:
		for at := 4; at < len(b); at += overLen {
			over = append(over, callKey{u32(at), u32(at + 4)})
		}
		return nil, over, true
	}
	return nil, nil, false
}

// digestOf is Digest of a call whose items are not in Args.
func digestOf(c *rpc.Call) [sha256.Size]byte {
	h, at := digest(c.Prog, c.Vers, c.Proc), 0
	if c.Item != nil {
		at = hashItem(h, c.Args, at, c.ItemPos, c.Item)
	}
	for _, i := range c.MoreItems {
		at = hashItem(h, c.Args, at, i.Pos, i.Data)
	}
	h.Write(c.Args[at:])
	return [sha256.Size]byte(h.Sum(nil))
}

// hashItem hashes the arguments from at to pos, where an item belongs, and the item with its pad
// (RFC 4506 Section 4.10).
func hashItem(h hash.Hash, args []byte, at, pos int, item []byte) int {
	h.Write(args[at:pos])
	h.Write(item)
	var pad [3]byte
	h.Write(pad[:-len(item)&3])
	return pos
}
