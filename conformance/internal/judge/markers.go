package judge

import (
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// markers judges the markers of the FPDUs of a connection that has some (RFC 5044 Section 4.3).
type markers struct {
	*conn
	from [2]uint64 // stream offset of the first octet of full operation
}

// markerStride is the distance from one marker to the next, in octets, including the marker.
const markerStride = 512

func (m *markers) event(ev *decode.Event) {
	switch {
	case ev.Kind == decode.KindStartup:
		m.from[ev.Dir] = ev.Offset + uint64(ev.Len)
	case ev.FPDU != nil && errors.Is(ev.Err, decode.ErrMarkers):
		m.violate("MPA-040", "%v", ev.Err)
		m.lose(ev.Dir)
	case ev.FPDU != nil && ev.FPDU.Markers > 0 && m.found == 0:
		m.reserved(ev)
	}
}

// reserved judges the reserved halves of an FPDU's markers.
func (m *markers) reserved(ev *decode.Event) {
	at := (markerStride - int((ev.Offset-m.from[ev.Dir])%markerStride)) % markerStride
	for ; at+4 <= len(ev.Raw); at += markerStride {
		if v := binary.BigEndian.Uint16(ev.Raw[at:]); v != 0 {
			m.violate("MPA-041", "%#04x in the marker at octet %d", v, at)
			return
		}
	}
}

func (m *markers) end() {}
