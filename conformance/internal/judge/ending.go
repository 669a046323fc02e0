package judge

import (
	"errors"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// ending judges where a side ends its stream (RFC 5044 Section 8).
type ending struct {
	*conn
	left [2]int // octets of an incomplete frame, reported right before the end of the stream
}

func (m *ending) event(ev *decode.Event) {
	switch {
	case m.info.Request == nil: // another protocol may begin with the octets of a key
	case ev.Kind == decode.KindUndecoded && errors.Is(ev.Err, decode.ErrPartial):
		m.left[ev.Dir] = ev.Len
	case ev.Kind == decode.KindClose && !ev.Reset && m.left[ev.Dir] > 0:
		m.cut(ev)
	default: // a hole in the capture cut it
		m.left[ev.Dir] = 0
	}
}

// cut reports a FIN inside a frame.
func (m *ending) cut(ev *decode.Event) {
	if m.left[ev.Dir] == markerLen && m.marked(ev.Dir) {
		m.violate("MPA-042", "four octets after the last FPDU")
		return
	}
	m.violate("MPA-033", "FIN after %d octets of an incomplete frame", m.left[ev.Dir])
}

const markerLen = 4

// marked reports whether a direction has markers, because its receiver asked for them.
func (m *ending) marked(dir decode.Dir) bool {
	f := m.info.Request
	if dir == m.info.Initiator {
		f = m.info.Reply
	}
	return f != nil && f.Markers
}

func (m *ending) end() {}
