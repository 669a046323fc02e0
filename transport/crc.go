package transport

import "github.com/stag-rdma/stag/rdmap"

// CRCMode says whether this side wants the FPDU CRC (RFC 5044 Section 4.4).
type CRCMode = rdmap.CRCMode

// Values for Config.CRC.
const (
	CRCOn  = rdmap.CRCOn  // use it; it is enough that either side asks for it
	CRCOff = rdmap.CRCOff // do without it, unless the peer asks for it
)
