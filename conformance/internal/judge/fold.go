package judge

import (
	"slices"

	"github.com/stag-rdma/stag/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// One mistake is one violation: what a judge finds wrong only because of an earlier mistake is a consequence
// of it. A frame with a wrong length, for instance, makes everything that follows it look wrong, and every
// answer of the peer look like an answer to nothing.

// root returns the mistake behind a violation.
func (v *Violation) root() *Violation {
	for v.Cause != nil {
		v = v.Cause
	}
	return v
}

// endsStream are the rules after whose breach the octets of that direction cannot be trusted to be read
// right: where frames begin, or what they are, is unknown. A conforming receiver ends the stream there.
var endsStream = ids(
	"MPA-001", "MPA-002", "MPA-003", "MPA-004", "MPA-030", "MPA-032", "MPA-033", "MPA-040",
	"DDP-001", "DDP-002", "DDP-004", "RDMAP-001", "RDMAP-003", "RDMAP-004", "RDMAP-005",
	"RDMAP-010", "RDMAP-011", "RDMAP-012", "RDMAP-013", "RDMAP-014", "RDMAP-015", "RDMAP-016", "RDMAP-017",
)

// wrongLength are the rules that a message breaks if it has more or fewer octets than its sender meant: then
// the next frame begins elsewhere.
var wrongLength = ids(
	"RPC-003", "RPC-004", "RPC-006", "RPC-012", "RPC-013", "NFS-001", "NFS-002", "RPCRDMA-001", "RPCRDMA-005",
	"RPCRDMA-007", "RPCRDMA-009", "RPCRDMA-023", "RPCRDMA-024", "RPCRDMA-025", "RPCRDMA-037", "RPCRDMA-050", "RPCRDMA-070",
	"RDMAP-033", "RDMAP-034", "DDP-007", "DDP-009",
)

// dependent are the rules that compare a message with what the other side has sent before.
var dependent = ids(
	"MPA-002", "MPA-010", "MPA-011", "MPA-020",
	"RDMAP-030", "RDMAP-031", "RDMAP-032", "RDMAP-033", "RDMAP-034", "RDMAP-035", "RDMAP-036", "RDMAP-040", "RDMAP-041",
	"RPCRDMA-002", "RPCRDMA-008", "RPCRDMA-034", "RPCRDMA-050", "RPCRDMA-051", "RPCRDMA-052", "RPCRDMA-053", "RPCRDMA-054",
	"RPCRDMA-060", "RPCRDMA-061", "RPCRDMA-062", "RPCRDMA-074", "RPCRDMA-080", "RPCRDMA-081", "RPCRDMA-082",
	"RPCRDMA-092",
)

// shifting are the rules after whose breach the rest of an RPC-over-RDMA header, or of an RPC message, is
// read from the wrong place.
var shifting = ids(
	"RPCRDMA-003", "RPCRDMA-004", "RPCRDMA-005", "RPCRDMA-007", "RPCRDMA-008", "RPCRDMA-009", "RPCRDMA-010",
	"RPC-001", "RPC-002", "RPC-003", "RPC-004", "RPC-005", "RPC-006", "RPC-007", "RPC-008", "RPC-012", "RPC-013", "RPC-018",
	"NFS-001", "NFS-002",
)

// losing are the rules after whose breach the judge does not know one message, or a part of it, for certain:
// which call it was, which it answered, where its data went. One answer, or one lack of it, follows.
var losing = ids(
	"DDP-005", "DDP-006", "DDP-007", "DDP-008", "DDP-009", "DDP-010", "DDP-011",
	"RPCRDMA-001", "RPCRDMA-002", "RPCRDMA-003", "RPCRDMA-004", "RPCRDMA-005", "RPCRDMA-007", "RPCRDMA-008",
	"RPCRDMA-009", "RPCRDMA-010", "RPCRDMA-050", "RPCRDMA-051", "RPCRDMA-080",
	"RPC-001", "RPC-002", "RPC-003", "RPC-004", "RPC-005", "RPC-006", "RDMAP-032", "RDMAP-033",
)

// closing are the dependent rules whose breach is the last consequence of a lost message.
var closing = ids("RPCRDMA-034", "RPCRDMA-053", "RPCRDMA-060", "RPCRDMA-061", "RPCRDMA-062", "RPCRDMA-080")

// settled are groups of rules about one thing that the startup settles. Breaches after the first follow from
// it.
var settled = map[string]int{
	"MPA-017": 1, "MPA-018": 1, "MPA-019": 1, "MPA-020": 1, // peer-to-peer
	"MPA-014": 2, "MPA-015": 2, "MPA-016": 2, "RDMAP-036": 2, // read depths
	"RPCRDMA-071": 3, "RPCRDMA-070": 3, "RPCRDMA-073": 3, // private data: inline thresholds, remote invalidation
}

// onResults are the rules about chunks of a reply, which are judged by what the reply says.
var onResults = ids(
	"RPCRDMA-030", "RPCRDMA-031", "RPCRDMA-032", "RPCRDMA-033", "RPCRDMA-035", "RPCRDMA-036", "RPCRDMA-037", "RPCRDMA-038",
	"RPCRDMA-040", "RPCRDMA-041", "RPCRDMA-042",
)

// onPositions are the rules about the Positions of Read chunks.
var onPositions = ids(
	"RPCRDMA-020", "RPCRDMA-021", "RPCRDMA-022", "RPCRDMA-023", "RPCRDMA-024", "RPCRDMA-025", "RPCRDMA-026", "RPCRDMA-027",
)

// onAccess are the rules that a reply breaks if the RDMA operations before it went elsewhere.
var onAccess = ids("RPCRDMA-030", "RPCRDMA-031", "RPCRDMA-032", "RPCRDMA-034", "RPCRDMA-053", "RPCRDMA-074", "RPCRDMA-085", "RPCRDMA-088", "NFS-003")

// executed are the rules about the execution of calls that are wrong.
var executed = ids("RPCRDMA-085", "RPCRDMA-088", "RPC-011", "NFS-003")

func ids(all ...string) map[string]bool {
	m := make(map[string]bool, len(all))
	for _, id := range all {
		m[id] = true
	}
	return m
}

// maxStalled bounds the violations that may turn out to be consequences of a frame that is not complete yet.
const maxStalled = 64

// folding finds causes.
type folding struct {
	broken  [2]*Violation // after which the rest of a direction means nothing
	checked [2]bool       // its frames are right again
	sound   [2]int        // how many have been well formed since the last that was not

	now     []*Violation    // in the event being judged
	before  [2][]*Violation // in the last frame of a direction
	stalled [2][]*Violation // of its peer, by dependent rules, since the last frame of a direction, while another was incomplete
	startup *Violation      // the first one of the startup
	agreed  [4]*Violation   // the first of each group of settled, in a startup frame
	carried [2]*Violation   // this side carries on after a frame that it should not have delivered
	closed  [2]bool         // unknown ends with the event being judged
	unknown [2]*Violation   // after which a message of a direction is not known for certain
}

// cause returns the mistake of which v is a consequence, nil if it is one of its own.
func (c *conn) cause(v *Violation) *Violation {
	id := v.Rule.ID
	if acceptance[id] {
		return nil
	}
	f := &c.fold
	if on := f.carried[v.Dir]; on != nil && executed[id] {
		return on
	}
	switch b := f.broken[v.Dir]; {
	case b != nil && (!f.checked[v.Dir] || dependent[id] || endsStream[id]):
		return b.root()
	case f.broken[1-v.Dir] != nil && dependent[id]:
		return f.broken[1-v.Dir].root()
	}
	for _, u := range f.now {
		if u.Dir == v.Dir && (dependent[id] && u.Rule.Severity == Error && below(u.Rule, v.Rule) || follows(u.Rule, v.Rule)) {
			return u.root()
		}
	}
	if u := f.longer(v.Dir); u != nil { // a frame swallowed the beginning of this one, or all of it
		switch layer := v.Rule.Layer(); {
		case endsStream[id] && layer != "MPA", layer == "DDP", id == "MPA-032", id == "MPA-033":
			return u.root()
		}
	}
	if endsStream[id] && f.startup != nil && c.fpdus[v.Dir] == 0 {
		return f.startup.root()
	}
	if g := settled[id]; g > 0 && f.agreed[g] != nil && (g != 2 || !slices.Contains(f.now, f.agreed[g])) { // two depths
		return f.agreed[g].root()
	}
	if u := f.unknown[v.Dir]; u != nil && onAccess[id] && (u.Rule.ID == "RPCRDMA-050" || u.Rule.ID == "RPCRDMA-051") {
		return u.root()
	}
	if !dependent[id] {
		return nil
	}
	for _, dir := range []decode.Dir{v.Dir, 1 - v.Dir} {
		if u := f.unknown[dir]; u != nil {
			f.closed[dir] = f.closed[dir] || closing[id]
			return u.root()
		}
	}
	if s := f.stalled[1-v.Dir]; len(s) > 0 && c.info.Held[1-v.Dir] > 0 {
		return s[0].root()
	}
	return nil
}

// follows reports whether a breach of b in the same message follows from that of a.
func follows(a, b *Rule) bool {
	switch upper := b.Layer() == "RPC" || b.Layer() == "NFS"; {
	case a.ID == b.ID:
		return false
	case shifting[a.ID] && (upper || shifting[b.ID] || onResults[b.ID]):
		return true
	case onResults[a.ID] && upper, onPositions[a.ID] && onPositions[b.ID]:
		return true
	case onResults[b.ID] && (a.ID == "RPCRDMA-085" || a.ID == "RPCRDMA-088"): // nobody knows what the call offered
		return true
	}
	return b.ID == "DDP-008" && a.Layer() == "RDMAP" || // the same octets
		b.ID == "NFS-003" && a.ID == "RPCRDMA-053" // it has read what it took for the arguments
}

// below reports whether a is of the same layer as b or a lower one.
func below(a, b *Rule) bool {
	layer := func(r *Rule) int {
		return slices.IndexFunc(tables, func(t []*Rule) bool { return t[0].Layer() == r.Layer() })
	}
	return layer(a) <= layer(b)
}

// folded takes a violation after its cause was sought, and finds what it causes among those before it.
func (c *conn) folded(v *Violation) {
	f, id := &c.fold, v.Rule.ID
	if acceptance[id] {
		f.carried[v.Dir] = v
		c.reassign(v, slices.DeleteFunc(slices.Clone(f.now), func(u *Violation) bool { return u.Dir != v.Dir || !executed[u.Rule.ID] }))
		return
	}
	if v.Rule.Layer() == "MPA" && v.Rule.Severity == Error && f.startup == nil && c.fpdus == [2]int{} {
		f.startup = v
	}
	if g := settled[id]; f.agreed[g] == nil && c.ev.Kind == decode.KindStartup {
		f.agreed[g] = v
	}
	if losing[id] {
		f.unknown[v.Dir] = v
	}
	if endsStream[id] && f.broken[v.Dir] == nil {
		f.broken[v.Dir] = v
		c.reassign(v, f.now) // the same octets, which mean nothing
		if v.Cause != nil && slices.Contains(f.before[v.Dir], v.Cause) {
			c.reassign(v, slices.DeleteFunc(slices.Clone(f.before[v.Dir]), func(u *Violation) bool { return !wrongLength[u.Rule.ID] }))
		}
	}
	if endsStream[id] || wrongLength[id] {
		c.reassign(v, f.stalled[v.Dir])
	}
	for _, u := range f.now {
		if u.Dir == v.Dir && u.Rule.ID == "MPA-031" && wrongLength[id] { // pad read from the next frame
			c.reassign(v, []*Violation{u})
		}
		if v.Rule.Severity == Error && u.Dir == v.Dir && dependent[u.Rule.ID] && !dependent[id] && below(v.Rule, u.Rule) {
			c.reassign(v, []*Violation{u})
		}
	}
	if s := &f.stalled[1-v.Dir]; dependent[id] && c.info.Held[1-v.Dir] > 0 && len(*s) < maxStalled {
		*s = append(*s, v)
	}
	f.now = append(f.now, v)
}

// reassign makes v the cause of violations that were reported before.
func (c *conn) reassign(v *Violation, all []*Violation) {
	for _, u := range all {
		if v := v.root(); u.Cause == nil && u != v {
			u.Cause = v
			if u.accepted != nil {
				c.reassign(v, []*Violation{u.accepted})
			}
			if c.j.refold != nil {
				c.j.refold(u)
			}
		}
	}
}

// longer returns the breach of wrongLength in the last frame of a direction, nil if there was none.
func (f *folding) longer(dir decode.Dir) *Violation {
	if i := slices.IndexFunc(f.before[dir], func(v *Violation) bool { return wrongLength[v.Rule.ID] }); i >= 0 {
		return f.before[dir][i]
	}
	return nil
}

// last returns the first violation in the last frame of a direction, nil if there was none.
func (f *folding) last(dir decode.Dir) *Violation {
	if len(f.before[dir]) > 0 {
		return f.before[dir][0]
	}
	return nil
}

// settle is called after the machines have seen an event.
func (f *folding) settle(ev *decode.Event) {
	if ev.Kind == decode.KindFPDU || ev.Kind == decode.KindStartup {
		f.stalled[ev.Dir] = f.stalled[ev.Dir][:0]
		f.before[ev.Dir] = f.before[ev.Dir][:0]
		for _, v := range f.now {
			if v.Dir == ev.Dir {
				f.before[ev.Dir] = append(f.before[ev.Dir], v)
			}
		}
	}
	for dir := range f.closed {
		if f.closed[dir] {
			f.unknown[dir], f.closed[dir] = nil, false
		}
	}
	f.now = f.now[:0]
}

// soundFrames is how many frames in a row must be well formed until octets are trusted again after a breach of
// endsStream, if there are no CRCs. By chance one is in 2^14.
const soundFrames = 3

// check notes whether the frames of a direction are right again, by their CRCs or by their form.
func (f *folding) check(ev *decode.Event) {
	if ev.FPDU == nil || f.broken[ev.Dir] == nil {
		return
	}
	if ev.FPDU.CRCState != decode.CRCOff {
		f.checked[ev.Dir] = ev.FPDU.CRCState == decode.CRCGood
		return
	}
	f.sound[ev.Dir]++
	if d := ev.DDP; d == nil || d.DV != ddp.Version || ev.RDMAP.Version != 1 || ev.FPDU.ULPDU[0]&reservedDDP != 0 ||
		ev.RDMAP.Op > verbs.OpAtomicWriteResponse || ev.RDMAP.Op.Tagged() != d.Tagged {
		f.sound[ev.Dir] = 0
	}
	f.checked[ev.Dir] = f.sound[ev.Dir] >= soundFrames
}
