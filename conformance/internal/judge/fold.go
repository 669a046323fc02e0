package judge

import (
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
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

// maxStalled bounds the violations that may turn out to be consequences of a frame that is not complete yet.
const maxStalled = 64

// folding finds causes.
type folding struct {
	broken  [2]*Violation // after which the rest of a direction means nothing
	checked [2]bool       // its frames are right again
	sound   [2]int        // how many have been well formed since the last that was not

	now     []*Violation          // in the event being judged
	before  [2][]*Violation       // in the last frame of a direction
	stalled [2][]*Violation       // of its peer, by dependent rules, since the last frame of a direction, while another was incomplete
	startup *Violation            // the first one of the startup
	agreed  map[Breaks]*Violation // the first of each group that the startup settles, in a startup frame
	carried [2]*Violation         // this side carries on after a frame that it should not have delivered
	closed  [2]bool               // unknown ends with the event being judged
	unknown [2]*Violation         // after which a message of a direction is not known for certain
}

// cause returns the mistake of which v is a consequence, nil if it is one of its own.
func (c *conn) cause(v *Violation) *Violation {
	id := v.Rule.ID
	if v.Rule.is(acceptance) {
		return nil
	}
	f := &c.fold
	if on := f.carried[v.Dir]; on != nil && v.Rule.is(executed) {
		return on
	}
	switch b := f.broken[v.Dir]; {
	case b != nil && (!f.checked[v.Dir] || v.Rule.is(dependent) || v.Rule.is(endsStream)):
		return b.root()
	case f.broken[1-v.Dir] != nil && v.Rule.is(dependent):
		return f.broken[1-v.Dir].root()
	}
	for _, u := range f.now {
		if alone(u.Rule, v.Rule) {
			continue
		}
		if u.Dir == v.Dir && (v.Rule.is(dependent) && u.Rule.Severity == Error && below(u.Rule, v.Rule) || follows(u.Rule, v.Rule)) {
			return u.root()
		}
	}
	if u := f.longer(v.Dir); u != nil { // a frame swallowed the beginning of this one, or all of it
		switch layer := v.Rule.Layer(); {
		case v.Rule.is(endsStream) && layer != "MPA", layer == "DDP", id == "MPA-032", id == "MPA-033":
			return u.root()
		}
	}
	if v.Rule.is(endsStream) && f.startup != nil && c.fpdus[v.Dir] == 0 {
		return f.startup.root()
	}
	switch g := v.Rule.Breaks & settles; {
	case g == 0, g == settles: // each side may send one of the latter
	case f.startup != nil && f.startup.Rule.Breaks&settles == settles: // nothing is settled
		return f.startup.root()
	case f.agreed[g] != nil && (g != settlesDepths || !slices.Contains(f.now, f.agreed[g])): // two depths
		return f.agreed[g].root()
	}
	if u := f.unknown[v.Dir]; u != nil && v.Rule.is(onAccess) && (u.Rule.ID == "RPCRDMA-050" || u.Rule.ID == "RPCRDMA-051") {
		return u.root()
	}
	if !v.Rule.is(dependent) {
		return nil
	}
	for _, dir := range []decode.Dir{v.Dir, 1 - v.Dir} {
		if u := f.unknown[dir]; u != nil {
			f.closed[dir] = f.closed[dir] || v.Rule.is(closing)
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
	case a.is(shifting) && (upper || b.is(shifting) || b.is(onResults)):
		return true
	case a.is(onResults) && upper, a.is(onPositions) && b.is(onPositions):
		return true
	case b.is(onResults) && (a.ID == "RPCRDMA-085" || a.ID == "RPCRDMA-088"): // nobody knows what the call offered
		return true
	}
	return b.ID == "DDP-008" && a.Layer() == "RDMAP" || // the same octets
		b.ID == "NFS-003" && a.ID == "RPCRDMA-053" // it has read what it took for the arguments
}

// alone reports whether a breach of a explains none of b: that something was not agreed on (Linux invalidates without
// having said so in most of its replies), or that a Reply chunk was not returned, so that the reply came inline. For a
// refusal as a whole the two are one mistake.
func alone(a, b *Rule) bool {
	return a.Breaks == settlesPrivateData && !b.is(settles) || a.ID == "RPCRDMA-040" && b.ID != "RPC-018"
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
	f := &c.fold
	if v.Rule.is(acceptance) {
		f.carried[v.Dir] = v
		c.reassign(v, slices.DeleteFunc(slices.Clone(f.now), func(u *Violation) bool { return u.Dir != v.Dir || !u.Rule.is(executed) }))
		return
	}
	// What is wrong about read depths or peer-to-peer says nothing about where frames begin and what they are.
	if g := v.Rule.Breaks & settles; v.Rule.Layer() == "MPA" && v.Rule.Severity == Error && (g == 0 || g == settles) && f.startup == nil && c.fpdus == [2]int{} {
		f.startup = v
	}
	if g := v.Rule.Breaks & settles; g != 0 && f.agreed[g] == nil && c.ev.Kind == decode.KindStartup {
		if f.agreed == nil {
			f.agreed = make(map[Breaks]*Violation)
		}
		f.agreed[g] = v
	}
	if v.Rule.is(losing) {
		f.unknown[v.Dir] = v
	}
	if v.Rule.is(endsStream) && f.broken[v.Dir] == nil {
		f.broken[v.Dir] = v
		c.reassign(v, f.now) // the same octets, which mean nothing
		if v.Cause != nil && slices.Contains(f.before[v.Dir], v.Cause) {
			c.reassign(v, slices.DeleteFunc(slices.Clone(f.before[v.Dir]), func(u *Violation) bool { return !u.Rule.is(wrongLength) }))
		}
	}
	if v.Rule.is(endsStream) || v.Rule.is(wrongLength) {
		c.reassign(v, f.stalled[v.Dir])
	}
	for _, u := range f.now {
		if u.Dir == v.Dir && u.Rule.ID == "MPA-031" && v.Rule.is(wrongLength) { // pad read from the next frame
			c.reassign(v, []*Violation{u})
		}
		if v.Rule.Severity == Error && u.Dir == v.Dir && u.Rule.is(dependent) && !v.Rule.is(dependent) && below(v.Rule, u.Rule) && !alone(v.Rule, u.Rule) {
			c.reassign(v, []*Violation{u})
		}
	}
	if s := &f.stalled[1-v.Dir]; v.Rule.is(dependent) && c.info.Held[1-v.Dir] > 0 && len(*s) < maxStalled {
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
	if i := slices.IndexFunc(f.before[dir], func(v *Violation) bool { return v.Rule.is(wrongLength) }); i >= 0 {
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
	if ev.Kind == decode.KindFPDU || ev.Kind == decode.KindPacket || ev.Kind == decode.KindStartup {
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
