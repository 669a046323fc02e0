package transport

import "github.com/stag-rdma/stag/rdmap"

type (
	// Startup has the settings for the start-up of a connection: MPA, CRC, read depths, sizes of FPDUs.
	Startup = rdmap.Startup
	// Reading says who reads a connection, and for how long a handler may keep others from it.
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
