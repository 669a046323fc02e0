package transport

import "github.com/stag-rdma/stag/rdmap"

// CRCMode says what this side wants of the FPDU CRC (RFC 5044 Section 4.4).
type CRCMode = rdmap.CRCMode

// Wishes for [Config].CRC.
const (
	CRCOn  = rdmap.CRCOn  // use it; either side's wish is enough
	CRCOff = rdmap.CRCOff // do without, if the peer does not ask for it
)
