package transport

import "github.com/stag-rdma/stag/rdmap"

// Settings of the connection below.
type (
	Startup = rdmap.Startup
	Reading = rdmap.Reading
	// CRCMode says whether this side wants the FPDU CRC (RFC 5044 Section 4.4).
	CRCMode = rdmap.CRCMode
)

// Values of Startup.CRC.
const (
	CRCPeer = rdmap.CRCPeer // a client asks for it, a server does as its client asks
	CRCOn   = rdmap.CRCOn   // use it; one side that asks for it is enough
	CRCOff  = rdmap.CRCOff  // omit it, unless the peer asks for it
)
