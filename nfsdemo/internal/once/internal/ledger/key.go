package ledger

import (
	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/xdr"
)

// Limits of a key, in octets.
const (
	maxAddr = 64              // an address without port, for IPv6 with zone
	maxCred = xdr.MaxAuthBody // RFC 5531 Section 8.2
)

// Key identifies a call. Two calls with the same key are the same call.
type Key struct {
	callid.Call
	Sum uint32 // CRC32C of the arguments
}

func (k *Key) append(b []byte) []byte {
	b = xdr.AppendString(b, k.Client.Addr)
	b = xdr.AppendUint32(b, k.Client.Flavor)
	b = xdr.AppendString(b, k.Client.Cred)
	for _, v := range [...]uint32{k.XID, k.Prog, k.Vers, k.Proc, k.Len, k.Sum} {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

func (k *Key) parse(d *xdr.Decoder) {
	k.Client.Addr = d.String(maxAddr)
	k.Client.Flavor = d.Uint32()
	k.Client.Cred = d.String(maxCred)
	k.XID, k.Prog, k.Vers, k.Proc = d.Uint32(), d.Uint32(), d.Uint32(), d.Uint32()
	k.Len, k.Sum = d.Uint32(), d.Uint32()
}

// cut truncates a client so that it fits into a record; only made-up values are too long.
func cut(c callid.Client) callid.Client {
	c.Addr, c.Cred = c.Addr[:min(len(c.Addr), maxAddr)], c.Cred[:min(len(c.Cred), maxCred)]
	return c
}
