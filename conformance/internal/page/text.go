package page

import (
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
)

// opName names what an arrow is.
func opName(ev *decode.Event) string {
	switch {
	case ev.Manager != "":
		return "CM " + ev.Manager
	case ev.RC != nil: // that of the message of which it is a part
		name := strings.Replace(ev.RC.String(), " Only", "", 1)
		for _, part := range []string{" First", " Middle", " Last"} {
			name, _, _ = strings.Cut(name, part)
		}
		return name
	case ev.Kind == decode.KindStartup && ev.Startup.IsReply:
		return "MPA Reply"
	case ev.Kind == decode.KindStartup:
		return "MPA Request"
	case ev.Kind == decode.KindClose && ev.Reset:
		return "RST"
	case ev.Kind == decode.KindClose:
		return "FIN"
	case ev.Kind == decode.KindUndecoded:
		return "not decoded"
	case ev.RDMAP == nil:
		return "FPDU"
	}
	return ev.RDMAP.Op.String()
}

// text returns in a few words what the message is for.
func text(ev *decode.Event, r *row) string {
	m := ev.Message
	switch {
	case ev.Startup != nil && ev.Manager != "":
		return depthsText(ev.Startup)
	case ev.Startup != nil:
		return fmt.Sprintf("revision %d, %s", ev.Startup.Rev, depthsText(ev.Startup))
	case ev.Kind == decode.KindClose:
		return ""
	case ev.Header != nil:
		return headerText(ev)
	case ev.RPC != nil: // the last octets of a call's chunks
		return rpcText(ev.RPC)
	case m != nil && m.Read != nil:
		return fmt.Sprintf("%d octets of %v", m.Read.Size, m.Read.SourceSTag)
	case m != nil && m.Terminate != nil:
		return m.Terminate.String()
	case ev.DDP != nil && ev.DDP.Tagged:
		return fmt.Sprintf("%d octets at %v", r.Len, ev.DDP.STag)
	}
	return fmt.Sprintf("%d octets", r.Len)
}

func depthsText(s *decode.Startup) string {
	var parts []string
	if s.Enhanced {
		parts = append(parts, fmt.Sprintf("IRD %d, ORD %d", s.Word.IRD, s.Word.ORD))
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{s.Rejected, "rejected"}, {s.Markers, "markers"}, {s.CRC, "CRC"}, {s.CM != nil, "RPC-over-RDMA"}} {
		if f.on {
			parts = append(parts, f.name)
		}
	}
	return strings.Join(parts, ", ")
}

func headerText(ev *decode.Event) string {
	h := ev.Header
	var parts []string
	if h.Type != rpcrdma.MsgTypeMsg {
		parts = append(parts, h.Type.String())
	}
	if h.Type == rpcrdma.MsgTypeError {
		parts = append(parts, h.Err.String())
	}
	if ev.RPC != nil {
		parts = append(parts, rpcText(ev.RPC))
	}
	for _, l := range []struct {
		n    int
		name string
	}{{len(h.Read), "read"}, {len(h.Write), "write"}, {len(h.Reply), "reply chunk"}} {
		if l.n > 0 {
			parts = append(parts, "+ "+l.name)
		}
	}
	return strings.Join(parts, " ")
}

// maxOps bounds the operations of a COMPOUND that are named on its arrow; the fields show all of them.
const maxOps = 12

func rpcText(r *decode.RPC) string {
	var parts []string
	switch {
	case r.Pulled:
		parts = append(parts, "completes call")
	case r.IsReply:
		parts = append(parts, "reply")
	default:
		parts = append(parts, "call")
	}
	if r.Name != "" {
		parts = append(parts, r.Name)
	}
	if r.Compound != nil {
		for _, op := range r.Compound.Ops[:min(len(r.Compound.Ops), maxOps)] {
			parts = append(parts, op.Name)
		}
	}
	if r.Reply != nil && r.Reply.Err() != nil {
		parts = append(parts, r.Reply.Err().Error())
	}
	if r.Status != "" {
		parts = append(parts, r.Status)
	}
	return strings.Join(parts, " ")
}
