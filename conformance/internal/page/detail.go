package page

import (
	"encoding/json"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// part names a range of a message's octets: up to, but not including, index End.
type part struct {
	End  int    `json:"end"`
	Name string `json:"name"` // mpa, ddp, header, payload
}

// maxFields bounds the decoded fields of one message, in octets of JSON.
const maxFields = 16 << 10

// fields keeps the decoded fields of a finished message.
func (b *Builder) fields(r *row, ev *decode.Event) {
	j, err := json.Marshal(ev)
	if err != nil || len(j) > maxFields || len(j) > b.detail {
		j, _ = json.Marshal(map[string]string{"left out": clip(ev.String())})
	}
	if len(j) <= b.detail {
		b.detail -= len(j)
		r.Fields = j
	}
}

// octets keeps the first octets of a message's first frame.
func (b *Builder) octets(r *row, ev *decode.Event) {
	n := min(len(ev.Raw), b.opt.MaxOctets)
	cost := n * 4 / 3 // in Base64
	if r.Of = len(ev.Raw); cost > b.detail {
		return
	}
	b.detail -= cost
	r.Octets = append([]byte(nil), ev.Raw[:n]...)
	for _, p := range parts(ev) {
		p.End = min(p.End, n)
		if k := len(r.Parts); p.End > 0 && (k == 0 || r.Parts[k-1].End < p.End) {
			r.Parts = append(r.Parts, p)
		}
	}
}

// parts divides a frame into its parts. Frames with markers are one part: the markers may be anywhere.
func parts(ev *decode.Event) []part {
	if ev.FPDU == nil || ev.FPDU.Markers > 0 {
		return []part{{len(ev.Raw), "payload"}}
	}
	p := []part{{mpa.HeaderLen, "mpa"}}
	if ev.DDP != nil {
		p = append(p, part{mpa.HeaderLen + ev.DDP.HeaderLen(), "ddp"})
		if ev.Header != nil && ev.Message.Segments == 1 {
			p = append(p, part{p[1].End + ev.Header.Size(), "header"})
		}
	}
	return append(p, part{mpa.HeaderLen + len(ev.FPDU.ULPDU), "payload"}, part{len(ev.Raw), "mpa"})
}
