package callid

import (
	"net"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/xdr"
)

// Client identifies a caller, as far as a server can tell.
type Client struct {
	// Addr is the address without the port, which changes with every connection.
	Addr string
	// Owner is who is known to have the other end of the connection; "" if nobody is. Of leaves it alone: only the
	// server that was called knows.
	Owner string
	// Shows is what the connection shows of the caller beside what he claims; 0 if that does not matter. Of leaves it
	// alone, because it is not the same at each server.
	Shows uint8
	// Flavor and Cred are the credential: for AUTH_SYS the body without the stamp, which may
	// change when the call is sent again. All groups count.
	Flavor uint32
	Cred   string
}

// Call identifies a call but for the content of its arguments, of which Len is the length in
// octets. A [Sum] tells the content.
type Call struct {
	Client                Client
	XID, Prog, Vers, Proc uint32
	Len                   uint32
}

// stampLen is the length of the stamp, with which an AUTH_SYS credential begins (RFC 5531 Appendix A).
const stampLen = 4

// Of identifies a call from addr whose complete arguments have n octets.
func Of(addr net.Addr, h *xdr.CallHeader, n int) Call {
	return Call{
		Client: Client{Addr: peeraddr.Host(addr), Flavor: uint32(h.Cred.Flavor), Cred: string(CredOf(h))},
		XID:    h.XID, Prog: h.Prog, Vers: h.Vers, Proc: h.Proc, Len: uint32(n),
	}
}

// CredOf returns what stays the same of a call's credential, lent as the header is.
func CredOf(h *xdr.CallHeader) []byte {
	if h.Cred.Flavor == xdr.AuthSys {
		return h.Cred.Body[min(stampLen, len(h.Cred.Body)):]
	}
	return h.Cred.Body
}
