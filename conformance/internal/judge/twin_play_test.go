package judge_test

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// The ends of every conversation.
var (
	initiator = netip.MustParseAddrPort("192.0.2.1:1000")
	responder = netip.MustParseAddrPort("192.0.2.2:20049")
)

// Play decodes the conversation, each frame in its own packet, and passes the events to visit, which borrows
// them. Nil options mean the decoder's defaults.
func (t *Trace) Play(opt *decode.Options, visit func(*decode.Event)) {
	c := decode.NewConn(opt, visit)
	c.Info.ID, c.Info.Opener, c.Info.Accepter = 1, initiator, responder
	if t.Middle {
		c.Join(I)
		c.Join(R)
	}
	r := newRenderer(t)
	now := time.Unix(1_700_000_000, 0)
	for i, f := range t.Frames {
		now = now.Add(f.Later)
		at := decode.Stamp{Frame: i + 1, Time: now}
		now = now.Add(time.Millisecond)
		switch {
		case f.End != NoEnd:
			c.Close(f.Dir, f.End == RST, at)
		case f.Lost > 0:
			c.Hole(f.Dir, f.Lost, at)
		default:
			c.Octets(f.Dir, r.octets(f), at)
		}
	}
	c.Finish()
}

// Capture returns the conversation as a pcapng file. A RST becomes a FIN there, and octets
// are not lost.
func (t *Trace) Capture() ([]byte, error) { return Captures(t) }

// Captures returns several conversations in one pcapng file, a frame of each in turn.
func Captures(traces ...*Trace) ([]byte, error) {
	var file bytes.Buffer
	w, err := capture.NewWriter(&file)
	if err != nil {
		return nil, err
	}
	conns := make([]*capture.Conn, len(traces))
	renderers := make([]*renderer, len(traces))
	for i, t := range traces {
		from := netip.AddrPortFrom(initiator.Addr(), initiator.Port()+uint16(i))
		conns[i], renderers[i] = w.Conn(from, responder), newRenderer(t)
	}
	for n, more := 0, true; more; n++ {
		more = false
		for i, t := range traces {
			if n < len(t.Frames) {
				more = true
				f := t.Frames[n]
				if f.End != NoEnd {
					conns[i].CloseWrite(capture.Dir(f.Dir))
					continue
				}
				conns[i].Write(capture.Dir(f.Dir), renderers[i].octets(f))
			}
		}
	}
	for _, c := range conns {
		c.Close()
	}
	err = w.Close() // only then is the file whole
	return file.Bytes(), err
}
