package judge

import (
	"errors"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// framing judges single FPDUs: length, pad, CRC (RFC 5044 Section 4).
type framing struct{ *conn }

func (m *framing) event(ev *decode.Event) {
	f := ev.FPDU
	if f == nil {
		return
	}
	if f.CRCState == decode.CRCBad && !errors.Is(ev.Err, decode.ErrMarkers) {
		m.violate("MPA-030", "CRC %08x does not match the FPDU of %d octets", f.CRC, ev.Len)
		return
	}
	if n := len(f.ULPDU); n > mpa.MaxULPDU {
		m.violate("MPA-032", "ULPDU of %d octets", n)
	}
	for _, b := range f.Pad {
		if b != 0 {
			m.violate("MPA-031", "pad %x", f.Pad)
			break
		}
	}
}

func (m *framing) end() {}
