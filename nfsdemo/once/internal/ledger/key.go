package ledger

import "github.com/stag-rdma/stag/xdr"

// Limits of a key, in octets.
const (
	maxAddr    = 64  // an address without port, for IPv6 with zone
	maxMachine = 255 // RFC 5531 Appendix A
	sumLen     = 16
)

// Client identifies a caller, as far as a server can tell: the address without the port, which changes
// with every connection, and the part of the credential that is the same in a retransmission.
type Client struct {
	Addr        string
	Flavor, UID uint32
	Machine     string
}

// Key identifies a call. Two calls with the same key are the same call.
type Key struct {
	Client                Client
	XID, Prog, Vers, Proc uint32
	// Len and Sum are the length of the arguments in octets, and their checksum.
	Len uint32
	Sum [sumLen]byte
}

func (k *Key) append(b []byte) []byte {
	b = xdr.AppendString(b, k.Client.Addr)
	b = xdr.AppendUint32(b, k.Client.Flavor)
	b = xdr.AppendUint32(b, k.Client.UID)
	b = xdr.AppendString(b, k.Client.Machine)
	for _, v := range [...]uint32{k.XID, k.Prog, k.Vers, k.Proc, k.Len} {
		b = xdr.AppendUint32(b, v)
	}
	return append(b, k.Sum[:]...)
}

func (k *Key) parse(d *xdr.Decoder) {
	k.Client.Addr = d.String(maxAddr)
	k.Client.Flavor, k.Client.UID = d.Uint32(), d.Uint32()
	k.Client.Machine = d.String(maxMachine)
	k.XID, k.Prog, k.Vers, k.Proc = d.Uint32(), d.Uint32(), d.Uint32(), d.Uint32()
	k.Len = d.Uint32()
	copy(k.Sum[:], d.FixedOpaque(sumLen))
}

// cut truncates c so that it fits into a record; only made-up values are too long.
func (c Client) cut() Client {
	c.Addr, c.Machine = c.Addr[:min(len(c.Addr), maxAddr)], c.Machine[:min(len(c.Machine), maxMachine)]
	return c
}
