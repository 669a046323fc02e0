package replies

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// The RPC program (docs/replies.x). Its number is in the range that RFC 5531 Section 8.3 leaves to users.
const (
	Program = 0x20737468
	Version = 1

	procNull  = 0
	procOffer = 1
)

// Flavor is the authentication flavor of the verifier of a reply that names a record. The body of
// the verifier has 8 octets that identify the server's state for this client, as it was told with
// the offer, and 8 octets with the number of the record. Choice: the verifier is the only part of a
// reply that the server may fill, and it stays with the reply in a duplicate request cache. A client
// that has offered no log gets no such verifier.
const Flavor xdr.AuthFlavor = 0x73746c67

const (
	keyLen = 16
)

// key is a random name.
type key [keyLen]byte

// status is replies_status.
type status uint32

const (
	statusOK      status = 0 // the connection is bound, and the log is appended to
	statusConnect status = 1 // the connection is bound, but the log must be connected
	statusBusy    status = 2
)

// offerArgs are offer_args: they name the log for the replies on this connection.
type offerArgs struct {
	Client  key
	Epoch   uint32
	Connect bool // the connection to the log has ended
}

func (a *offerArgs) Code(c *xdr.Coder) {
	c.Fixed(a.Client[:])
	c.Uint32(&a.Epoch)
	c.Bool(&a.Connect)
}

func (a *offerArgs) append(b []byte) []byte { return xdr.Encode(b, a) }
func (a *offerArgs) parse(d *xdr.Decoder)   { xdr.Decode(d, a) }

// offerRes is offer_res.
type offerRes struct {
	Status status
	At     rendezvous.Place // of statusConnect
	Life   uint64           // of statusConnect: identifies the server's state; records named in others are lost
}

func (r *offerRes) Code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == statusConnect {
		r.At.Code(c)
		c.Uint64(&r.Life)
	}
}

func (r *offerRes) append(b []byte) []byte { return xdr.Encode(b, r) }
func (r *offerRes) parse(d *xdr.Decoder)   { xdr.Decode(d, r) }

// name names a record.
type name struct{ life, seq uint64 }

// nameLen is how many octets a name adds to a reply.
const nameLen = 16

// verf returns the verifier with the name.
func (n name) verf() xdr.Auth {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, nameLen), n.life)
	return xdr.Auth{Flavor: Flavor, Body: binary.BigEndian.AppendUint64(b, n.seq)}
}

// nameIn returns the record that a reply names.
func nameIn(h *xdr.ReplyHeader) (n name, ok bool) {
	if h.Denied || h.Verf.Flavor != Flavor || len(h.Verf.Body) != nameLen {
		return n, false
	}
	n = name{binary.BigEndian.Uint64(h.Verf.Body), binary.BigEndian.Uint64(h.Verf.Body[8:])}
	return n, n.seq != 0
}

// Record is a reply in the log.
//
//	off 0, 4 octets: Epoch
//	off 4, 4: Prog
//	off 8, 4: Vers
//	off 12, 4: Proc
//	off 16, 32: Digest
//	off 48: RDMA header and RPC message as they would travel inline; their first word is the XID
type Record struct {
	Seq    uint64            // number in the log
	Epoch  uint32            // of the life of the client that has called
	XID    uint32            // with Epoch, the key
	Prog   uint32            // what was called
	Vers   uint32            //
	Proc   uint32            //
	Digest [sha256.Size]byte // of the call: see Digest
	Reply  []byte            // the RPC reply message, header included
}

const (
	recordLen = 48
	// rdmaLen is the RDMA header of an inline reply.
	rdmaLen = rpcrdma.MinHeaderSize
)

// Digest is the SHA-256 of program, version and procedure, each 4 octets, and the
// arguments of a call, unreduced.
func Digest(prog, vers, proc uint32, args []byte) [sha256.Size]byte {
	h := digest(prog, vers, proc)
	h.Write(args)
	return [sha256.Size]byte(h.Sum(nil))
}

// digest begins a Digest.
func digest(prog, vers, proc uint32) hash.Hash {
	h := sha256.New()
	var b [12]byte
	binary.BigEndian.PutUint32(b[:], prog)
	binary.BigEndian.PutUint32(b[4:], vers)
	binary.BigEndian.PutUint32(b[8:], proc)
	h.Write(b[:])
	return h
}

// recordSize returns the octets of the record of a reply.
func recordSize(resp *rpc.Response) int { return recordLen + rdmaLen + resp.ReplySize() }

// appendRecord appends the record of a reply.
func appendRecord(b []byte, epoch uint32, digest [sha256.Size]byte, req *rpc.Request, resp *rpc.Response) []byte {
	for _, v := range [...]uint32{epoch, req.Prog, req.Vers, req.Proc} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, digest[:]...)
	h := rpcrdma.Header{XID: req.XID, Vers: 1, Credit: 1, Type: rpcrdma.MsgTypeMsg}
	return resp.AppendReply(h.Append(b), req.XID)
}

// parseRecord reads a record, and takes b. It returns false if b is not a record.
func parseRecord(seq uint64, b []byte) (*Record, bool) {
	if len(b) < recordLen+rdmaLen {
		return nil, false
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	r := &Record{
		Seq: seq, Epoch: u32(0), XID: u32(recordLen), Prog: u32(4), Vers: u32(8), Proc: u32(12),
		Digest: [sha256.Size]byte(b[16:recordLen]), Reply: b[recordLen+rdmaLen:],
	}
	return r, true
}

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

// State is the content of the logs of a client.
type State struct {
	Replies    []*Record // like Client.Recovered
	Unanswered []*Issued // like Client.Unanswered
}

// Inspect reads the log of replies, and the log of calls unless that is nil. It changes nothing.
// The logs should not be in use meanwhile. Errors: *commitlog.FormatError,
// *commitlog.PoisonError, ErrForeign, and those of reading.
func Inspect(replies, calls *io.SectionReader) (*State, error) {
	var st State
	err := inspect(replies, func(seq uint64, payload []byte) bool {
		r, ok := parseRecord(seq, payload)
		if ok {
			st.Replies = append(st.Replies, r)
		}
		return ok
	})
	if err != nil || calls == nil {
		return &st, err
	}
	a := newAsked()
	err = inspect(calls, func(_ uint64, payload []byte) bool { return a.recovered(payload) })
	for _, r := range st.Replies {
		a.end(callKey{r.Epoch, r.XID})
	}
	st.Unanswered = a.calls()
	return &st, err
}

func inspect(r *io.SectionReader, each func(seq uint64, payload []byte) bool) error {
	info, err := commitlog.Inspect(r, r.Size(), func(rec *commitlog.Record) error {
		if !each(rec.Seq, rec.Payload) {
			return fmt.Errorf("%w: record %d", ErrForeign, rec.Seq)
		}
		return nil
	})
	if err == nil && info.Poison != nil {
		err = info.Poison
	}
	return err
}
