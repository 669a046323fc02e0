package judge

import (
	"fmt"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// Verdict is what a [Report] amounts to.
type Verdict uint8

const (
	// Clean: all of the capture's iWARP and RoCE was judged, and no rule is broken; notes do not count.
	Clean Verdict = iota
	// Violations: a rule is broken, whatever else could not be judged.
	Violations
	// Inconclusive: no rule is known to be broken, but a part of the capture, or all of it, could not be
	// judged; [Report.Reasons] says which.
	Inconclusive
)

// String returns "clean", "violations" or "inconclusive".
func (v Verdict) String() string { return [...]string{"clean", "violations", "inconclusive"}[v] }

// Verdict returns what the report amounts to.
func (r *Report) Verdict() Verdict {
	for _, c := range r.Connections {
		for id := range c.Counts {
			if rulesByID[id].Severity != Note {
				return Violations
			}
		}
	}
	if len(r.Reasons()) > 0 {
		return Inconclusive
	}
	return Clean
}

// Judged returns how many MPA startup frames and FPDUs, or messages of connection managers and packets of RoCE, the verdict rests on.
func (r *Report) Judged() (frames int) {
	for _, c := range r.Connections {
		frames += c.Startups + c.FPDUs[0] + c.FPDUs[1]
	}
	return frames
}

// Reasons returns why the capture, or parts of it, could not be judged, each without a full stop; none if
// all of it was. It is about the file as a whole first, then about each connection in order.
func (r *Report) Reasons() []string {
	all := carriers(&r.Stats)
	if r.Beyond > 0 {
		all = append(all, fmt.Sprintf("%d connections began after %d others: none of them was judged", r.Beyond, len(r.Connections)))
	}
	if r.Judged() == 0 {
		all = append(all, nothing(&r.Stats, r.Encrypted))
	}
	for _, c := range r.Connections {
		for _, s := range c.Unknown {
			all = append(all, fmt.Sprintf("connection %d: unknown: %s", c.Info.ID, s))
		}
	}
	return all
}

// nothing says why no frame was judged.
func nothing(s *decode.CaptureStats, encrypted int) string {
	switch {
	case s.Packets == 0:
		return "the capture holds no packet"
	case s.TCP == 0 && s.Fragments > 0:
		return "the capture holds no TCP, and fragments of IP datagrams of which others are missing, overlap or are cut off"
	case s.RoCE > 0:
		return "no connection of RoCE in the capture shows more than datagrams"
	case s.TCP == 0:
		return "the capture holds no TCP, so no iWARP, and no RoCE"
	case encrypted > 0:
		return fmt.Sprintf("no TCP connection of the capture shows an MPA frame; %d of %d are within TLS, and what is encrypted is not judged", encrypted, s.Connections)
	}
	return "no TCP connection of the capture shows an MPA frame"
}

// carriers names the RDMA of the capture that is not judged.
func carriers(s *decode.CaptureStats) (all []string) {
	for _, c := range []struct {
		n    int
		what string
	}{
		{s.Stray, "RoCE or InfiniBand, but not of a reliable connection of which both sides are known"},
		{s.Unread, fmt.Sprintf("link type %d, which is not read", s.UnreadLink)},
	} {
		if c.n > 0 {
			all = append(all, fmt.Sprintf("%d of %d packets are of %s", c.n, s.Packets, c.what))
		}
	}
	return all
}
