package replies

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/stag-rdma/stag/rpcrdma"
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

func takeKey(d *xdr.Decoder) (k key) {
	copy(k[:], d.FixedOpaque(keyLen))
	return k
}

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

func (a *offerArgs) append(b []byte) []byte {
	b = xdr.AppendFixedOpaque(b, a.Client[:])
	b = xdr.AppendUint32(b, a.Epoch)
	return xdr.AppendBool(b, a.Connect)
}

func (a *offerArgs) parse(d *xdr.Decoder) {
	a.Client, a.Epoch, a.Connect = takeKey(d), d.Uint32(), d.Bool()
}

// offerRes is offer_res.
type offerRes struct {
	Status status
	At     rendezvous.Place // of statusConnect
	Life   uint64           // of statusConnect: identifies the server's state; records named in others are lost
}

func (r *offerRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(r.Status))
	if r.Status == statusConnect {
		b = xdr.AppendUint64(r.At.Append(b), r.Life)
	}
	return b
}

func (r *offerRes) parse(d *xdr.Decoder) {
	r.Status = status(d.Uint32())
	if r.Status == statusConnect {
		r.At.Parse(d)
		r.Life = d.Uint64()
	}
}

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
