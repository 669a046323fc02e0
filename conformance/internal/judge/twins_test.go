package judge_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/xdr"
)

// twinOf is how a rule is broken: a good conversation, and the one thing to change in it.
type twinOf struct {
	good   func() *Trace
	mutate func(*Trace)
	opt    *decode.Options
	setup  func(*judge.Judge) // makes the judge different
}

// twins holds the twins of all rules, by ID.
var twins = merged(mpaTwins, ddpTwins, rdmapTwins, acceptTwins)

// twinless are the layers whose twins have tests of their own: TestTwinsRPC, TestTwinsCommit.
var twinless = []string{"RPCRDMA", "RPC", "NFS", "COMMIT"}

func merged(all ...map[string]twinOf) map[string]twinOf {
	m := make(map[string]twinOf)
	for _, t := range all {
		maps.Copy(m, t)
	}
	return m
}

// judged returns the violations in a conversation, without consequences.
func judged(t *Trace, tw *twinOf) (all []*judge.Violation) {
	j := judge.New(nil, func(v *judge.Violation) { all = append(all, v) })
	if tw.setup != nil {
		tw.setup(j)
	}
	t.Play(tw.opt, j.Event)
	j.End()
	return slices.DeleteFunc(all, func(v *judge.Violation) bool { return v.Cause != nil || v.Withdrawn })
}

// TestTwins: each rule has a twin, a conversation that breaks it and nothing else; without
// the change that makes the twin it breaks nothing.
func TestTwins(t *testing.T) {
	for _, r := range judge.Rules() {
		tw, ok := twins[r.ID]
		if !ok && slices.Contains(twinless, r.Layer()) {
			continue // these two tests demand one for each of their rules
		}
		t.Run(r.ID, func(t *testing.T) {
			if !ok {
				t.Fatal("no twin")
			}
			trace := tw.good()
			for _, v := range judged(trace, &tw) {
				t.Errorf("the good one: %v", v)
			}
			trace = tw.good()
			tw.mutate(trace)
			vs := judged(trace, &tw)
			if !slices.ContainsFunc(vs, func(v *judge.Violation) bool { return v.Rule == r }) {
				t.Error("the twin does not break it")
			}
			for _, v := range vs {
				if v.Rule != r && !paired(v.Rule.ID, r.ID) {
					t.Errorf("the twin breaks another rule: %v", v)
				}
			}
		})
	}
	for id := range twins {
		if _, ok := judge.Find(id); !ok {
			t.Errorf("a twin of no rule: %s", id)
		}
	}
}

// octets returns n octets that differ.
func octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// read is a Read Request of 200 octets.
func read(n uint32) decode.ReadRequest {
	return decode.ReadRequest{SinkSTag: 0x1100 + ddp.STag(n), SinkTO: 4096, Size: 200, SourceSTag: 0x2200, SourceTO: 64}
}

// every returns a conversation with every message there is, some in several segments.
func every() *Trace {
	t := New().Startup()
	t.Send(I, octets(21))
	t.Send(R, octets(40))
	t.Segment = 64
	t.Send(I, octets(150))
	t.Write(R, 0x3300, 1<<40, octets(150))
	t.Untagged(R, verbs.OpSendSE, octets(7))
	t.Read(R, read(0))
	t.Read(I, read(1))
	t.ReadRequest(R, read(2))
	t.ReadRequest(R, read(3))
	t.ReadResponse(I, read(2))
	t.ReadResponse(I, read(3))
	t.Segment = 0
	t.SendInvalidate(R, 0x3300, octets(4))
	t.SendInvalidate(R, 0x3301, nil)
	extensions(t)
	t.Send(R, octets(1))
	return t.Close()
}

// extensions adds the messages of RFC 7306 and the commit draft.
func extensions(t *Trace) {
	t.Immediate(I, 1)
	t.Untagged(R, verbs.OpImmediateSE, octets(8))
	t.Atomic(I, verbs.AtomicFetchAdd, 77, 0x4400, 8)
	t.AtomicResponse(R, 77)
	t.Atomic(I, verbs.AtomicCmpSwap, 78, 0x4400, 8)
	t.ReadRequest(I, read(4))
	t.AtomicResponse(R, 78)
	t.ReadResponse(R, read(4))
	t.Write(I, 0x4400, 0, octets(64))
	t.Flush(I, 0x4400, 64, 0)
	t.Verify(I, 0x4400, 64, 0, []byte{1, 2, 3, 4})
	t.AtomicWrite(I, 0x4400, 0, 9)
	t.FlushResponse(R)
	t.VerifyResponse(R, []byte{1, 2, 3, 4})
	t.AtomicWriteResponse(R)
}

// terminated returns a conversation that ends by a Terminate of the responder, about the
// initiator's last Send: no receive was posted.
func terminated() *Trace {
	t := New().Startup()
	t.Send(I, octets(20))
	bad := t.Send(I, octets(30))
	t.Terminate(R, &verbs.Terminate{
		Code:      verbs.TermCode{Layer: 1, EType: 2, Code: 0x02},
		HasLength: true, SegLen: 18 + 30, DDP: bad.Seg.Append(nil),
	})
	return t.Close()
}

// frames returns the frames that are segments of messages of an opcode.
func frames(t *Trace, op verbs.Opcode) (all []*Frame) {
	for n := 0; ; n++ {
		f := t.Nth(op, n)
		if f == nil {
			return all
		}
		all = append(all, f)
	}
}

// TestGood: the good conversations say what they are meant to.
func TestGood(t *testing.T) {
	seen := make(map[verbs.Opcode]bool)
	every().Play(nil, func(ev *decode.Event) {
		if ev.Err != nil {
			t.Errorf("%v", ev)
		}
		if ev.RDMAP != nil {
			seen[ev.RDMAP.Op] = true
		}
	})
	for op := verbs.OpWrite; op <= verbs.OpAtomicWriteResponse; op++ {
		if !seen[op] && op != verbs.OpTerminate && op != verbs.OpSendSEInvalidate {
			t.Errorf("no %v", op)
		}
	}
	if !slices.ContainsFunc(terminated().Frames, func(f *Frame) bool { return f.Seg.QN == 2 }) {
		t.Error("no Terminate")
	}
}

// startupOf returns a conversation with the given startup and one Send each way.
func startupOf(req, rep mpa.Frame) func() *Trace {
	return func() *Trace {
		t := New()
		t.Request(req)
		t.Reply(rep)
		t.Send(I, octets(20))
		t.Send(R, octets(20))
		return t.Close()
	}
}

// enhanced returns a frame of revision 2 with a word.
func enhanced(w mpa.Enhanced) mpa.Frame {
	return mpa.Frame{Rev: 2, CRC: true, Enhanced: true, Word: w}
}

var (
	deep    = mpa.Enhanced{IRD: 4, ORD: 4}
	usual   = startupOf(enhanced(deep), enhanced(deep))
	plain   = startupOf(mpa.Frame{Rev: 1, CRC: true}, mpa.Frame{Rev: 1, CRC: true})
	unasked = startupOf(
		enhanced(mpa.Enhanced{IRD: mpa.NotNegotiated, ORD: 4}),
		enhanced(mpa.Enhanced{IRD: 4, ORD: mpa.NotNegotiated}))
)

// marked returns a conversation with markers both ways, frames long enough for several in one.
func marked() *Trace {
	t := New()
	f := enhanced(deep)
	f.Markers = true
	t.Request(f)
	t.Reply(f)
	t.Send(I, octets(1500))
	t.Send(R, octets(20))
	t.Send(I, octets(455))
	t.Send(I, octets(20))
	return t.Close()
}

// p2p returns a peer-to-peer conversation whose RTR is an RDMA Write.
func p2p() *Trace {
	w := mpa.Enhanced{PeerToPeer: true, RTR: mpa.RTRWrite | mpa.RTRRead, IRD: 4, ORD: 4}
	t := New()
	t.Request(enhanced(w))
	w.RTR = mpa.RTRWrite
	t.Reply(enhanced(w))
	t.Write(I, 1, 0, nil)
	t.Send(R, octets(20))
	t.Send(I, octets(20))
	return t.Close()
}

// ofRequest and ofReply change the startup frames.
func ofRequest(f func(*Startup)) func(*Trace) {
	return func(t *Trace) { f(t.Frames[0].Startup) }
}

func ofReply(f func(*Startup)) func(*Trace) {
	return func(t *Trace) { f(t.Frames[1].Startup) }
}

// onlyStartup returns a conversation of two startup frames.
func onlyStartup() *Trace {
	t := New()
	t.Request(enhanced(deep))
	t.Reply(enhanced(deep))
	return t.Close()
}

var mpaTwins = map[string]twinOf{
	"MPA-001": {good: onlyStartup, mutate: ofReply(func(s *Startup) { s.Reply = false })},
	"MPA-002": {good: onlyStartup, mutate: func(t *Trace) { t.Swap(t.Frames[0], t.Frames[1]) }},
	"MPA-003": {good: onlyStartup, mutate: ofReply(func(s *Startup) { s.Key = "MPA ID Rap Frame" })},
	"MPA-004": {good: onlyStartup, mutate: ofRequest(func(s *Startup) { s.PrivateData = octets(509) })},
	"MPA-005": {good: onlyStartup, mutate: ofRequest(func(s *Startup) { s.Rev = 3 })},
	"MPA-006": {good: onlyStartup, mutate: ofRequest(func(s *Startup) { s.Enhanced, s.PrivateData, s.Flags = false, octets(2), 0x10 })},
	"MPA-007": {good: usual, mutate: ofRequest(func(s *Startup) { s.Flags = 0x20 })},
	"MPA-008": {good: usual, mutate: ofReply(func(s *Startup) { s.Flags = 0x08 })},
	"MPA-009": {good: plain, mutate: ofRequest(func(s *Startup) { s.Flags = 0x10 })},
	"MPA-010": {good: usual, mutate: func(t *Trace) { t.Swap(t.Frames[1], t.Frames[2]) }},
	"MPA-011": {good: usual, mutate: func(t *Trace) { t.Swap(t.Frames[2], t.Frames[3]) }},
	"MPA-012": {good: usual, mutate: ofReply(func(s *Startup) { s.Enhanced = false })},
	"MPA-013": {good: plain, mutate: ofReply(func(s *Startup) { s.Rev = 2 })},
	"MPA-014": {good: usual, mutate: ofReply(func(s *Startup) { s.Word.IRD = 3 })},
	"MPA-015": {good: usual, mutate: ofReply(func(s *Startup) { s.Word.ORD = 5 })},
	"MPA-016": {good: unasked, mutate: ofReply(func(s *Startup) { s.Word.ORD = 4 })},
	"MPA-017": {good: usual, mutate: ofRequest(func(s *Startup) { s.Word.RTR = mpa.RTRRead })},
	"MPA-018": {good: p2p, mutate: ofReply(func(s *Startup) { s.Word.PeerToPeer, s.Word.RTR = false, 0 })},
	"MPA-019": {good: usual, mutate: func(t *Trace) {
		t.Frames[0].Startup.Word.PeerToPeer = true
		t.Frames[1].Startup.Rejected = true
		t.Drop(t.Frames[2], t.Frames[3])
	}},
	"MPA-020": {good: p2p, mutate: func(t *Trace) { t.Drop(t.Nth(verbs.OpWrite, 0)); t.Swap(t.Frames[2], t.Frames[3]) }},
	"MPA-021": {good: unasked, mutate: func(t *Trace) {
		none := mpa.Enhanced{IRD: mpa.NotNegotiated, ORD: mpa.NotNegotiated}
		t.Frames[0].Startup.Word, t.Frames[1].Startup.Word = none, none
	}},
	"MPA-022": {good: usual, mutate: ofReply(func(s *Startup) { s.Rejected = true })},

	"MPA-030": {good: usual, mutate: func(t *Trace) { t.Nth(verbs.OpSend, 1).BadCRC = true }},
	"MPA-031": {good: every, mutate: func(t *Trace) {
		t.Nth(verbs.OpSend, 0).Edit = func(b []byte) { b[len(b)-5] = 0x72 } // 2+18+21: three octets of pad
	}},
	"MPA-032": {good: usual, mutate: func(t *Trace) { t.Nth(verbs.OpSend, 0).Payload = octets(64768) }},
	"MPA-033": {good: usual, mutate: func(t *Trace) { t.Nth(verbs.OpSend, 1).Cut = 5 }},

	"MPA-040": {good: marked, mutate: func(t *Trace) {
		t.Nth(verbs.OpSend, 0).Edit = func(b []byte) { binary.BigEndian.PutUint16(b[512+2:], 4) }
	}},
	"MPA-041": {good: marked, mutate: func(t *Trace) {
		t.Nth(verbs.OpSend, 0).Edit = func(b []byte) { binary.BigEndian.PutUint16(b[1024:], 1) }
	}},
	"MPA-042": {good: lastAtMarker, mutate: func(t *Trace) {
		t.Before(t.Frames[len(t.Frames)-2], &Frame{Dir: I, Raw: make([]byte, 4)})
	}},
}

// lastAtMarker is a conversation whose last FPDU of the initiator ends where a marker is due.
func lastAtMarker() *Trace {
	t := New()
	f := enhanced(deep)
	f.Markers = true
	t.Request(f)
	t.Reply(f)
	t.Send(I, octets(512-4-2-18-4))
	return t.Close()
}

// the changes the n-th segment of an opcode.
func the(op verbs.Opcode, n int, f func(*Frame)) func(*Trace) {
	return func(t *Trace) { f(t.Nth(op, n)) }
}

// In every, the initiator's second Send has three segments: the Sends 2, 3 and 4; so has the
// responder's Write.
var ddpTwins = map[string]twinOf{
	"DDP-001": {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.ULPDU = func(b []byte) []byte { return b[:17] } })},
	"DDP-002": {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.Seg.DV = 2 })},
	"DDP-003": {good: every, mutate: the(verbs.OpWrite, 0, func(f *Frame) { f.Reserved = 0x20 })},
	"DDP-004": {good: every, mutate: the(verbs.OpSend, 1, func(f *Frame) { f.Seg.QN = 4 })},
	"DDP-005": {good: every, mutate: func(t *Trace) {
		t.Drop(t.Nth(verbs.OpSendSE, 0))
	}},
	"DDP-006": {good: every, mutate: the(verbs.OpSend, 4, func(f *Frame) { f.Seg.MSN++ })},
	"DDP-007": {good: every, mutate: the(verbs.OpSend, 3, func(f *Frame) { f.Seg.MO += 4 })},
	"DDP-008": {good: every, mutate: the(verbs.OpSend, 3, func(f *Frame) { f.Seg.Control = 0x45 })},
	"DDP-009": {good: every, mutate: func(t *Trace) {
		w := frames(t, verbs.OpWrite)
		w[1].Seg.TO, w[2].Seg.TO = w[1].Seg.TO+4, w[2].Seg.TO+4
	}},
	"DDP-010": {good: every, mutate: func(t *Trace) {
		w := frames(t, verbs.OpWrite)
		from := uint64(math.MaxUint64) - 149
		for i := range 3 {
			w[i].Seg.TO = from + uint64(64*i) + 1
		}
	}},
	"DDP-011": {good: every, mutate: func(t *Trace) {
		last := t.Nth(verbs.OpWrite, 2)
		t.Drop(last)
		t.After(t.Nth(verbs.OpWrite, 1), &Frame{Dir: last.Dir, Seg: last.Seg, Payload: last.Payload})
		other := t.Nth(verbs.OpWrite, 2)
		other.Seg.STag, other.Seg.TO = 0x5500, 0
	}},
	"DDP-012": {good: every, mutate: func(t *Trace) { // the last Send of the responder
		s := frames(t, verbs.OpSend)
		s[len(s)-1].Seg.Last = false
	}},
	"DDP-013": { // 4 GiB are too long for a test
		good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.Payload = octets(1024) }),
		setup: func(j *judge.Judge) { j.SetTooLong(1000) },
	},
}

// grow adds n octets to, or takes -n from, the n-th message of an opcode.
func grow(op verbs.Opcode, n int) func(*Trace) {
	return the(op, 0, func(f *Frame) { f.Payload = append(f.Payload, make([]byte, 64)...)[:len(f.Payload)+n] })
}

// set stores a 32-bit word in the payload of the first message of an opcode.
func set(op verbs.Opcode, at int, v uint32) func(*Trace) {
	return the(op, 0, func(f *Frame) { binary.BigEndian.PutUint32(f.Payload[at:], v) })
}

// terminate changes the Terminate of terminated.
func terminate(f func(b []byte) []byte) func(*Trace) {
	return the(verbs.OpTerminate, 0, func(fr *Frame) { fr.Payload = f(fr.Payload) })
}

// busy is a conversation of a responder with as many Reads outstanding as agreed.
func busy() *Trace {
	t := New()
	t.Request(enhanced(deep))
	t.Reply(enhanced(deep))
	t.Send(I, octets(20))
	for n := range uint32(4) {
		t.ReadRequest(R, read(n))
	}
	for n := range uint32(4) {
		t.ReadResponse(I, read(n))
	}
	return t.Close()
}

var rdmapTwins = map[string]twinOf{
	"RDMAP-001": {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.Seg.Control = 0x83 })},
	"RDMAP-002": {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.Seg.Control |= 0x20 })},
	"RDMAP-003": {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.Seg.Control = 0x52 })},
	"RDMAP-004": {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.Seg.Control = 0x40 })},
	"RDMAP-005": {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.Seg.QN = 1 })},
	"RDMAP-006": {good: every, mutate: the(verbs.OpSendSE, 0, func(f *Frame) { f.Seg.ULP = 0x3300 })},

	"RDMAP-008": {good: every, mutate: func(t *Trace) {
		for _, f := range t.Frames[:2] {
			f.Startup.PrivateData = nil
		}
	}},
	"RDMAP-010": {good: every, mutate: grow(verbs.OpReadRequest, 4)},
	"RDMAP-011": {good: every, mutate: grow(verbs.OpImmediate, -1)},
	"RDMAP-012": {good: every, mutate: grow(verbs.OpAtomicRequest, -8)},
	"RDMAP-013": {good: every, mutate: grow(verbs.OpAtomicResponse, 4)},
	"RDMAP-014": {good: every, mutate: grow(verbs.OpFlushRequest, -4)},
	"RDMAP-015": {good: every, mutate: grow(verbs.OpVerifyRequest, -8)},
	"RDMAP-016": {good: every, mutate: grow(verbs.OpAtomicWriteRequest, 8)},
	"RDMAP-017": {good: every, mutate: grow(verbs.OpFlushResponse, 4)},
	"RDMAP-018": {good: every, mutate: set(verbs.OpAtomicRequest, 0, 3)},
	"RDMAP-019": {good: every, mutate: set(verbs.OpAtomicRequest, 0, 0x10)},
	"RDMAP-020": {good: every, mutate: set(verbs.OpAtomicRequest, 36, 1)},
	"RDMAP-021": {good: every, mutate: set(verbs.OpFlushRequest, 16, 4)},
	"RDMAP-022": {good: every, mutate: set(verbs.OpAtomicWriteRequest, 4, 4)},

	"RDMAP-030": {good: every, mutate: func(t *Trace) {
		t.Drop(t.Nth(verbs.OpReadRequest, 0))
		t.Renumber()
	}},
	"RDMAP-031": {good: every, mutate: func(t *Trace) {
		t.Swap(t.Nth(verbs.OpReadRequest, 2), t.Nth(verbs.OpReadRequest, 3))
		t.Renumber()
	}},
	"RDMAP-032": {good: every, mutate: func(t *Trace) { // a Response of one segment
		r := frames(t, verbs.OpReadResponse)
		r[len(r)-1].Seg.STag = 0x9900
	}},
	"RDMAP-033": {good: every, mutate: func(t *Trace) {
		r := frames(t, verbs.OpReadResponse)
		r[len(r)-1].Seg.TO += 8
	}},
	"RDMAP-034": {good: every, mutate: set(verbs.OpReadRequest, 12, 204)},
	"RDMAP-035": {good: every, mutate: set(verbs.OpAtomicResponse, 0, 76)},
	"RDMAP-036": {good: busy, mutate: ofReply(func(s *Startup) { s.Word.ORD = 3 })},
	"RDMAP-037": {good: every, mutate: set(verbs.OpVerifyResponse, 0, 0)},

	"RDMAP-040": {good: every, mutate: func(t *Trace) {
		w := &Frame{Dir: R, Seg: ddp.Segment{Tagged: true, Last: true, DV: 1, Control: 0x40, STag: 0x3300}, Payload: octets(4)}
		t.After(t.Nth(verbs.OpSendInvalidate, 0), w)
	}},
	"RDMAP-041": {good: every, mutate: the(verbs.OpSendInvalidate, 1, func(f *Frame) { f.Seg.ULP = 0x3300 })},

	"RDMAP-050": {good: terminated, mutate: func(t *Trace) {
		late := &Frame{Dir: R, Seg: ddp.Segment{Last: true, DV: 1, Control: 0x43, MSN: 1}}
		t.After(t.Nth(verbs.OpTerminate, 0), late)
	}},
	"RDMAP-051": {good: terminated, mutate: func(t *Trace) {
		f := t.Nth(verbs.OpTerminate, 0)
		first := &Frame{Dir: f.Dir, Seg: f.Seg, Payload: f.Payload[:6]}
		first.Seg.Last = false
		f.Seg.MO, f.Payload = 6, f.Payload[6:]
		t.Before(f, first)
	}},
	"RDMAP-052": {good: terminated, mutate: terminate(func(b []byte) []byte { b[1] = 0x77; return b })},
	"RDMAP-053": {good: terminated, mutate: terminate(func(b []byte) []byte { b[3] = 1; return b })},
	"RDMAP-054": {good: terminated, mutate: terminate(func(b []byte) []byte { return append(b, 1) })},
	"RDMAP-055": {good: terminated, mutate: terminate(func(b []byte) []byte { b[2] = 0x40; return b })},
	"RDMAP-056": {good: terminated, mutate: terminate(func(b []byte) []byte { b[6+13]++; return b })}, // the MSN quoted
	"RDMAP-057": {good: terminated, mutate: terminate(func(b []byte) []byte { b[5] -= 18; return b })},
	"RDMAP-058": {good: crossed, mutate: func(t *Trace) {
		f := t.Nth(verbs.OpTerminate, 1)
		f.Payload = (&verbs.Terminate{
			Code:      verbs.TermCode{Layer: 0, EType: 2, Code: 0x06},
			HasLength: true, SegLen: 18 + 24, DDP: t.Nth(verbs.OpTerminate, 0).Seg.Append(nil),
		}).Append(nil)
	}},
	"RDMAP-059": {good: terminated, mutate: terminate(func(b []byte) []byte { b[0], b[2] = 0x21, 0x03; return b })},
	"RDMAP-060": {good: terminated, mutate: terminate(func(b []byte) []byte { b[1] = 0x01; return b })}, // invalid QN
	"RDMAP-062": {good: terminated, mutate: func(t *Trace) {
		late := &Frame{Dir: I, Seg: ddp.Segment{Last: true, DV: 1, Control: 0x43, MSN: 3}, Later: 2 * time.Second}
		t.After(t.Nth(verbs.OpTerminate, 0), late)
	}},
	"RDMAP-061": {good: terminated, mutate: terminate(func([]byte) []byte { return []byte{0x20, 0x04, 0, 0} })},
}

// crossed is a conversation in which both sides find something wrong at the same time.
func crossed() *Trace {
	t := New().Startup()
	a := t.Send(I, octets(30))
	b := t.Send(R, octets(30))
	noBuffer := func(s *Frame) *verbs.Terminate {
		return &verbs.Terminate{
			Code:      verbs.TermCode{Layer: 1, EType: 2, Code: 0x02},
			HasLength: true, SegLen: 18 + 30, DDP: s.Seg.Append(nil),
		}
	}
	t.Terminate(R, noBuffer(a))
	t.Terminate(I, noBuffer(b))
	return t.Close()
}

// change does one exchange of a kind, with one thing changed.
func change(kind func(*RPC) *Exchange, f func(*Exchange)) func(*RPC) {
	return func(t *RPC) {
		t.Do(t.Null())
		x := kind(t)
		f(x)
		t.Do(x)
	}
}

// The kinds.
func readFile(t *RPC) *Exchange  { return t.ReadFile(5001) }
func writeFile(t *RPC) *Exchange { return t.WriteFile(5001) }
func readDir(t *RPC) *Exchange   { return t.ReadDir() }
func longList(t *RPC) *Exchange  { return t.ReadDir().LongReply() }

// word changes a word of the header that goes out, at an octet from its start or, negative, from its end.
func word(at int, v uint32) func(*Message) {
	return func(m *Message) {
		b := m.Header.Append(nil)
		if at < 0 {
			at += len(b)
		}
		binary.BigEndian.PutUint32(b[at:], v)
		m.Raw = append(b, m.Body...)
	}
}

// badHeader is a call that is answered by ERR_CHUNK.
func badHeader(kind func(*RPC) *Exchange, f func(*Message)) func(*RPC) {
	return change(kind, func(x *Exchange) {
		f(&x.Call)
		x.Refuse(rpcrdma.ErrChunk)
	})
}

func null(t *RPC) *Exchange { return t.Null() }

// ask does a NULL that the responder answers in another way.
func ask(f func(*Exchange)) func(*RPC) { return change(null, f) }

// ccp begins a connection with CONF_RDMA, so that it is one of RFC 5666.
func ccp(t *RPC) { t.Do(conf(t)) }

func conf(t *RPC) *Exchange {
	return t.Exchange(100417, 1, 1, make12(4096, 4096, 16), make12(4096, 4, 16))
}

func make12(a, b, c uint32) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(nil, a), b), c)
}

// pulledReply is a READ whose result the client pulls, and says so (RFC 5666).
func pulledReply(t *RPC) (x *Exchange, done *Exchange) {
	x = t.NFS(nfs3.ProcRead, ReadArgs(3000), ReadRes(3000))
	s := t.NewSegment(3000)
	at := len(x.Reply.Body) - 3000
	x.Reply.Body = x.Reply.Body[:at]
	x.Reply.Header.Read = []chunks.ReadSegment{{Position: uint32(at), Segment: s}}
	done = &Exchange{Dir: I, Reply: Message{Skip: true}}
	done.Call.Header = rpcrdma.Header{XID: x.Call.Header.XID, Vers: 1, Credit: 32, Type: rpcrdma.MsgTypeDone}
	return x, done
}

var rpcrdmaTwins = map[string]func(*RPC){
	"RPCRDMA-001": ask(func(x *Exchange) { x.Call.Raw, x.Reply.Skip = x.Call.Header.Append(nil)[:24], true }),
	"RPCRDMA-002": func(t *RPC) {
		for range 2 {
			x := t.Null()
			x.Call.Header.Vers = 2
			t.Do(x.Refuse(rpcrdma.ErrVers))
		}
	},
	"RPCRDMA-003": badHeader(null, word(12, 9)),
	"RPCRDMA-004": badHeader(readFile, word(16, 2)),
	"RPCRDMA-005": badHeader(null, func(m *Message) { word(20, 1)(m); m.Raw = append(m.Raw[:24], 0, 0, 0, 9) }),
	"RPCRDMA-006": badHeader(writeFile, func(m *Message) { m.Header.Read[0].Offset = ^uint64(0) }),
	"RPCRDMA-007": change(longList, func(x *Exchange) { x.Reply.Body = make([]byte, 4) }),
	"RPCRDMA-008": badHeader(readDir, func(m *Message) { m.Header.Type, m.Body = rpcrdma.MsgTypeNoMsg, nil }),
	"RPCRDMA-009": badHeader(null, func(m *Message) { m.Body = m.Body[:4] }),
	"RPCRDMA-010": badHeader(null, func(m *Message) { m.Body[3] ^= 1 }),

	"RPCRDMA-020": badHeader(writeFile, func(m *Message) { m.Header.Read[0].Position += 2; m.Header.Read[1].Position += 2 }),
	"RPCRDMA-021": func(t *RPC) {
		t.Do(t.Null())
		x := t.Exchange(0x20000000, 1, 1, make([]byte, 64), nil)
		for _, at := range []uint32{80, 60} {
			s := t.NewSegment(8)
			x.Call.Header.Read = append(x.Call.Header.Read, chunks.ReadSegment{Position: at, Segment: s})
			x.Pulls = append(x.Pulls, Pull(s))
		}
		t.Do(x)
	},
	"RPCRDMA-022": badHeader(writeFile, func(m *Message) { m.Header.Read[0].Position = 0; m.Header.Read = m.Header.Read[:1] }),
	"RPCRDMA-023": badHeader(writeFile, func(m *Message) { m.Header.Read[0].Position += 64; m.Header.Read = m.Header.Read[:1] }),
	"RPCRDMA-024": badHeader(writeFile, func(m *Message) { m.Header.Read[1].Position += 4 }),
	"RPCRDMA-025": change(writeFile, func(x *Exchange) {
		x.Call.Header.Read[1].Length -= 8
		x.Pulls[1].Size -= 8
		refuseArgs(x)
	}),
	"RPCRDMA-026": change(writeFile, func(x *Exchange) { x.Call.Header.Read[1].Length += 3; x.Pulls[1].Size += 3 }),
	"RPCRDMA-027": func(t *RPC) {
		t.Do(t.Null())
		x := t.Reduce(t.NFS(nfs3.ProcLookup, DirOp(strings.Repeat("n", 255)), &nfs3.LookupRes{Status: nfs3.ErrNoEnt}), 255)
		t.Do(x.Refuse(rpcrdma.ErrChunk))
	},
	"RPCRDMA-028": change(readFile, func(x *Exchange) { gss(x, 3); x.Refuse(rpcrdma.ErrChunk) }),

	"RPCRDMA-030": change(readFile, func(x *Exchange) { x.Reply.Header.Write = append(x.Reply.Header.Write, chunks.WriteChunk{}) }),
	"RPCRDMA-031": change(readFile, func(x *Exchange) { x.Reply.Header.Write[0][1].Handle++ }),
	"RPCRDMA-032": change(readFile, func(x *Exchange) { x.Reply.Header.Write[0][0].Length++ }),
	"RPCRDMA-033": change(readFile, func(x *Exchange) { x.Reply.Header.Write[0][0].Length -= 4 }),
	"RPCRDMA-034": change(readFile, func(x *Exchange) { x.Writes[1].Data = x.Writes[1].Data[1:] }),
	"RPCRDMA-035": func(t *RPC) {
		x := t.NFS(nfs3.ProcRead, ReadArgs(2000), ReadRes(2000))
		body := x.Reply.Body
		t.Sink(x, chunks.WriteChunk{t.NewSegment(2000)}, 2000)
		x.Reply.Body, x.Writes = body, nil
		x.Reply.Header.Write[0][0].Length = 0
		t.Do(x)
	},
	"RPCRDMA-036": change(readFile, func(x *Exchange) { // NFS3ERR_IO, without attributes
		x.Reply.Body = append(x.Reply.Body[:24:24], 0, 0, 0, 5, 0, 0, 0, 0)
	}),
	"RPCRDMA-037": change(readFile, func(x *Exchange) { x.Reply.Header.Write[0][1].Length -= 9 }),
	"RPCRDMA-038": change(readFile, func(x *Exchange) {
		x.Call.Header.Write[0][1].Length += 99
		x.Reply.Header.Write[0][1].Length += 3
		x.Writes[1].Data = append(x.Writes[1].Data, 0, 0, 0)
	}),
	"RPCRDMA-039": change(readFile, func(x *Exchange) { x.Call.Header.Write[0][1].Length += 3 }),
	"RPCRDMA-040": change(readDir, func(x *Exchange) { x.Reply.Header.HasReply = false }),
	"RPCRDMA-041": change(readFile, func(x *Exchange) { x.Reply.Header.HasReply = true }),
	"RPCRDMA-042": change(longList, func(x *Exchange) {
		x.Reply.Header.Type = rpcrdma.MsgTypeMsg
		for _, w := range x.Writes {
			x.Reply.Body = append(x.Reply.Body, w.Data...)
		}
	}),
	"RPCRDMA-043": change(readDir, func(x *Exchange) { x.Call.Header.HasReply, x.Reply.Header.HasReply = false, false }),
	"RPCRDMA-044": func(t *RPC) { x, _ := pulledReply(t); t.Do(x) },

	"RPCRDMA-045": change(readFile, func(x *Exchange) {
		first := chunks.WriteChunk{{Handle: 0x4400, Length: 5001}}
		unused := chunks.WriteChunk{{Handle: 0x4400}}
		x.Call.Header.Write = append([]chunks.WriteChunk{first}, x.Call.Header.Write...)
		x.Reply.Header.Write = append([]chunks.WriteChunk{unused}, x.Reply.Header.Write...)
	}),
	"RPCRDMA-050": change(null, func(x *Exchange) { x.Writes = []Move{{STag: 0x999, Data: make([]byte, 4)}} }),
	"RPCRDMA-051": change(null, func(x *Exchange) {
		x.Pulls = []decode.ReadRequest{{SinkSTag: 0x77, Size: 4, SourceSTag: 0x999}}
	}),
	"RPCRDMA-052": func(t *RPC) {
		x := t.ReadFile(5001)
		x.Reply.Invalidate = 0
		t.Do(x)
		t.Write(R, x.Writes[0].STag, x.Writes[0].TO, make([]byte, 8))
		t.Do(t.Null())
	},
	"RPCRDMA-053": change(writeFile, func(x *Exchange) { x.Pulls = x.Pulls[:1] }),
	"RPCRDMA-054": change(writeFile, func(x *Exchange) {
		x.Writes = []Move{{STag: x.Pulls[0].SourceSTag, TO: x.Pulls[0].SourceTO, Data: make([]byte, 4)}}
	}),

	"RPCRDMA-060": func(t *RPC) { several(t, func(x *Exchange) { x.Reply.Header.Credit = 2 }, 3) },
	"RPCRDMA-061": func(t *RPC) {
		a, b := t.Null(), t.Null()
		t.Ask(a)
		t.Ask(b)
		t.Answer(a)
		t.Answer(b)
	},
	"RPCRDMA-062": func(t *RPC) { several(t, func(x *Exchange) { x.Call.Header.Credit = 2 }, 3) },
	"RPCRDMA-063": ask(func(x *Exchange) { x.Reply.Header.Credit = 0 }),
	"RPCRDMA-064": ask(func(x *Exchange) { x.Call.Header.Credit = 0 }),

	"RPCRDMA-070": func(t *RPC) {
		t.Private[1].RecvSize = 1024
		t.Do(t.NFS(nfs3.ProcWrite, WriteArgs(1000), WriteRes(1000)))
	},
	"RPCRDMA-071": func(t *RPC) {
		t.Begin()
		t.Frames[1].Startup.PrivateData[4] = 2
		t.Do(t.Null())
	},
	"RPCRDMA-072": func(t *RPC) {
		t.Begin()
		t.Frames[1].Startup.PrivateData[5] |= 2
		t.Do(t.Null())
	},
	"RPCRDMA-073": func(t *RPC) {
		t.Private[1].RemoteInvalidate = false
		x := t.ReadFile(5001)
		x.Reply.Invalidate = x.Writes[0].STag
		t.Do(x)
	},
	"RPCRDMA-074": func(t *RPC) {
		x, y := t.ReadFile(100), t.ReadFile(100)
		t.Do(t.Null())
		t.Ask(x)
		t.Ask(y)
		x.Reply.Invalidate = ddp.STag(y.Call.Header.Write[0][0].Handle)
		t.Answer(x)
		y.Refuse(rpcrdma.ErrChunk)
		t.Answer(y)
	},
	"RPCRDMA-075": ask(func(x *Exchange) { x.Call.Invalidate = 0x12345 }),

	"RPCRDMA-080": ask(func(x *Exchange) { x.Call.Skip = true }),
	"RPCRDMA-081": func(t *RPC) { x := t.Null(); t.Do(x); x.Call.Skip = true; t.Do(x) },
	"RPCRDMA-082": func(t *RPC) {
		x := t.Null()
		t.Do(t.Null())
		t.Ask(x)
		t.Do(x)
	},
	"RPCRDMA-083": ask(func(x *Exchange) { x.Refuse(rpcrdma.ErrCode(7)) }),
	"RPCRDMA-084": ask(func(x *Exchange) { x.Refuse(rpcrdma.ErrChunk); x.Call.Raw = x.Call.Header.Append(nil)[:24] }),
	"RPCRDMA-085": ask(func(x *Exchange) { x.Call.Header.Vers = 2; x.Refuse(rpcrdma.ErrChunk) }),
	"RPCRDMA-086": ask(func(x *Exchange) { x.Refuse(rpcrdma.ErrChunk).Reply.Header.Vers = 3 }),
	"RPCRDMA-087": ask(func(x *Exchange) { x.Refuse(rpcrdma.ErrVers) }),
	"RPCRDMA-088": ask(func(x *Exchange) { word(12, 9)(&x.Call) }),
	"RPCRDMA-089": func(t *RPC) {
		x := t.Null()
		t.Do(x)
		e := &Exchange{Dir: R, Call: Message{Skip: true}}
		e.Reply.Header = rpcrdma.Header{XID: x.Call.Header.XID, Vers: 1, Credit: 1, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}
		t.Do(e)
	},

	"RPCRDMA-090": ask(func(x *Exchange) {
		x.Call.Header.Type, x.Call.Header.Align = rpcrdma.MsgTypeMsgP, 4
		x.Refuse(rpcrdma.ErrChunk)
	}),
	"RPCRDMA-091": func(t *RPC) { _, done := pulledReply(t); t.Do(t.Null()); t.Do(done) },
	"RPCRDMA-092": func(t *RPC) {
		ccp(t)
		x, done := pulledReply(t)
		t.Do(x)
		r := Pull(x.Reply.Header.Read[0].Segment)
		t.ReadRequest(I, r)
		t.Do(done)
		t.ReadResponse(R, r)
	},
	"RPCRDMA-093": func(t *RPC) {
		ccp(t)
		x := t.Null()
		x.Call.Header.Type, x.Call.Header.Align, x.Call.Header.Thresh = rpcrdma.MsgTypeMsgP, 6, 4000
		t.Do(x)
	},
	"RPCRDMA-094": func(t *RPC) { t.Do(t.Null()); ccp(t) },
	"RPCRDMA-095": func(t *RPC) {
		x := conf(t)
		auth(x, xdr.Auth{Flavor: 5, Body: make([]byte, 400)}, xdr.Auth{Flavor: 5, Body: make([]byte, 400)})
		for range 12 {
			x.Call.Header.Reply = append(x.Call.Header.Reply, t.NewSegment(64))
		}
		x.Reply.Header.Reply, _ = Fill(x.Call.Header.Reply, nil)
		x.Call.Header.HasReply, x.Reply.Header.HasReply = true, true
		t.Do(x)
	},
}

// several does n calls at once after a first one, each with one thing changed.
func several(t *RPC, f func(*Exchange), n int) {
	first := t.Null()
	f(first)
	t.Do(first)
	all := make([]*Exchange, n)
	for i := range all {
		all[i] = t.Null()
		f(all[i])
		t.Ask(all[i])
	}
	for _, x := range all {
		t.Answer(x)
	}
}

// refuseArgs makes the reply GARBAGE_ARGS.
func refuseArgs(x *Exchange) { accept(x, xdr.ReplyHeader{Accept: xdr.GarbageArgs}) }

// accept puts a reply without results in place of the reply.
func accept(x *Exchange, h xdr.ReplyHeader) {
	h.XID = x.Reply.Header.XID
	x.Reply.Body = xdr.AppendReply(nil, &h)
}

// auth puts a credential and a verifier into an inline call.
func auth(x *Exchange, cred, verf xdr.Auth) {
	d := xdr.NewDecoder(x.Call.Body)
	var h xdr.CallHeader
	_ = h.Parse(&d)
	h.Cred, h.Verf = cred, verf
	x.Call.Body = append(xdr.AppendCall(nil, &h), d.Rest()...)
}

// gss puts a credential of RPCSEC_GSS with the given service into an inline call (RFC 2203 Section 5.3.1).
func gss(x *Exchange, service uint32) {
	body := xdr.AppendUint32(make12(1, 0, 1), service)
	auth(x, xdr.Auth{Flavor: xdr.RPCSECGSS, Body: xdr.AppendOpaque(body, []byte("ctx1"))}, xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, 16)})
}

// rpcrdmaBases are conversations that already break a rule, for the rules about the consequences: the twin
// breaks its own rule in addition.
var rpcrdmaBases = map[string]func(*RPC){
	"RPCRDMA-084": ask(func(x *Exchange) { x.Reply.Skip, x.Call.Raw = true, x.Call.Header.Append(nil)[:24] }),
	"RPCRDMA-088": badHeader(null, word(12, 9)),
}

// played judges a conversation of RPC-over-RDMA. It returns the rules broken.
func played(t *testing.T, talk func(*RPC)) (broken []string) {
	t.Helper()
	conv := NewRPC()
	talk(conv)
	j := judge.New(nil, func(v *judge.Violation) {
		t.Log(v)
		if v.Cause == nil && v.Rule.ID != "RDMAP-042" && !slices.Contains(broken, v.Rule.ID) { // its twin is elsewhere
			broken = append(broken, v.Rule.ID)
		}
	})
	conv.Play(nil, func(ev *decode.Event) { j.Event(ev) })
	j.End()
	slices.Sort(broken)
	return broken
}

// TestGoodRPC: nothing is wrong with the conversations that the twins are made from.
func TestGoodRPC(t *testing.T) {
	for name, talk := range map[string]func(*RPC){"8166": goodRPC, "5666": goodOld} {
		t.Run(name, func(t *testing.T) {
			if got := played(t, talk); got != nil {
				t.Errorf("broken: %v", got)
			}
		})
	}
}

// TestTwinsRPC: one thing changed breaks one rule, and the rule that it should.
func TestTwinsRPC(t *testing.T) {
	for _, table := range []map[string]func(*RPC){rpcrdmaTwins, rpcTwins, nfsTwins} {
		for id, talk := range table {
			t.Run(id, func(t *testing.T) {
				want := []string{id}
				base := rpcrdmaBases[id]
				if base == nil {
					base = rpcBases[id]
				}
				if base != nil {
					want = append(want, played(t, base)...)
				}
				slices.Sort(want)
				if got := played(t, talk); !slices.Equal(got, want) {
					t.Errorf("broken: %v, want %v", got, want)
				}
			})
		}
	}
	for _, r := range slices.Concat(judge.RPCRDMARules, judge.RPCRules, judge.NFSRules) {
		if !slices.ContainsFunc([]map[string]func(*RPC){rpcrdmaTwins, rpcTwins, nfsTwins}, func(m map[string]func(*RPC)) bool {
			return slices.Contains(slices.Collect(maps.Keys(m)), r.ID)
		}) {
			t.Errorf("%s has no twin", r.ID)
		}
	}
}

// reply is a NULL with another answer.
func reply(h xdr.ReplyHeader) func(*RPC) {
	return ask(func(x *Exchange) { accept(x, h) })
}

// nfs does one inline exchange of NFSv3.
func nfs(proc nfs3.Proc, args, results xdr.Message) func(*RPC) {
	return func(t *RPC) {
		t.Do(t.Null())
		t.Do(t.NFS(proc, args, results))
	}
}

// sys is a valid AUTH_SYS.
var sys = xdr.SysCred{MachineName: "host1", UID: 1, GID: 2, GIDs: []uint32{3}}

var rpcTwins = map[string]func(*RPC){
	"RPC-001": badHeader(null, func(m *Message) { m.Body[7] = 2 }),
	"RPC-002": ask(func(x *Exchange) {
		x.Call.Body[11] = 3
		accept(x, xdr.ReplyHeader{Denied: true, Reject: xdr.RPCMismatch, Low: 2, High: 2})
	}),
	"RPC-003": badHeader(null, func(m *Message) {
		m.Body = append(m.Body[:28], append([]byte{0, 0, 1, 0x94}, make([]byte, 500)...)...)
	}),
	"RPC-004": badHeader(null, func(m *Message) { m.Body = m.Body[:36] }),
	"RPC-005": ask(func(x *Exchange) { x.Reply.Body[23] = 9 }),
	"RPC-006": ask(func(x *Exchange) { x.Reply.Body = x.Reply.Body[:20] }),
	"RPC-007": ask(func(x *Exchange) { auth(x, xdr.Auth{Body: make([]byte, 4)}, xdr.Auth{}) }),
	"RPC-008": ask(func(x *Exchange) {
		many := sys
		body := append(many.Append(nil), 0, 0, 0, 1)
		auth(x, xdr.Auth{Flavor: xdr.AuthSys, Body: body}, xdr.Auth{})
		accept(x, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred})
	}),
	"RPC-009": ask(func(x *Exchange) { auth(x, sys.Auth(), xdr.Auth{Flavor: xdr.AuthShort, Body: make([]byte, 4)}) }),
	"RPC-010": reply(xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 2, High: 4}),
	"RPC-011": ask(func(x *Exchange) { x.Call.Body[11] = 3 }),
	"RPC-012": ask(func(x *Exchange) { x.Reply.Body = append(x.Reply.Body, 0, 0, 0, 0) }),
	"RPC-013": change((*RPC).GetAttr, func(x *Exchange) { x.Call.Body = append(x.Call.Body, 0, 0, 0, 0) }),
	"RPC-014": func(t *RPC) {
		x := t.NFS(nfs3.ProcLookup, DirOp("abc"), &nfs3.LookupRes{Status: nfs3.ErrNoEnt})
		x.Call.Body[len(x.Call.Body)-1] = 1
		t.Do(x)
	},
	"RPC-016": change((*RPC).GetAttr, refuseArgs),
	"RPC-017": ask(func(x *Exchange) { accept(x, xdr.ReplyHeader{Verf: sys.Auth()}) }),
	"RPC-018": func(t *RPC) {
		t.Do(t.GetAttr())
		x := t.GetAttr()
		accept(x, xdr.ReplyHeader{Accept: xdr.ProcUnavail})
		t.Do(x)
	},
	"RPC-019": func(t *RPC) {
		t.Do(t.Null())
		t.Do(t.Exchange(nfs3.Program, 3, 22, nil, nil))
	},
	"RPC-015": reply(xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError}),
}

var rpcBases = map[string]func(*RPC){
	"RPC-011": rpcTwins["RPC-002"],
	"NFS-003": nfsTwins["NFS-001"],
}

// badArgs is a GETATTR with a handle of 65 octets.
func badArgs(t *RPC) *Exchange {
	x := t.GetAttr()
	x.Call.Body = xdr.AppendOpaque(x.Call.Body[:40], make([]byte, 65))
	return x
}

var nfsTwins = map[string]func(*RPC){
	"NFS-001": change(badArgs, refuseArgs),
	"NFS-002": change((*RPC).GetAttr, func(x *Exchange) { x.Reply.Body = x.Reply.Body[:len(x.Reply.Body)-4] }),
	"NFS-003": change(badArgs, func(*Exchange) {}),
	"NFS-004": nfs(nfs3.ProcGetAttr, HandleArgs(), &nfs3.GetAttrRes{Status: 99}),
	"NFS-005": nfs(nfs3.ProcGetAttr, HandleArgs(), &nfs3.GetAttrRes{Status: nfs3.ErrExist}),

	"NFS-014": func(t *RPC) {
		t.Do(t.Null())
		t.Do(t.GetAttr())
		a := Attr(10)
		a.FileID = 7
		t.Do(t.NFS(nfs3.ProcGetAttr, HandleArgs(), &nfs3.GetAttrRes{Attr: a}))
	},
	"NFS-047": func(t *RPC) {
		t.Do(t.Null())
		a := Attr(10)
		a.Mode |= 0o100000 // S_IFREG
		t.Do(t.NFS(nfs3.ProcGetAttr, HandleArgs(), &nfs3.GetAttrRes{Attr: a}))
	},
	"NFS-010": func(t *RPC) {
		a := WriteArgs(100)
		a.Count = 96
		t.Do(t.NFS(nfs3.ProcWrite, a, &nfs3.WriteRes{Status: nfs3.ErrInval}))
	},
	"NFS-011": nfs(nfs3.ProcWrite, WriteArgs(100), WriteRes(101)),
	"NFS-012": func(t *RPC) {
		r := WriteRes(100)
		r.Committed = nfs3.Unstable
		t.Do(t.NFS(nfs3.ProcWrite, WriteArgs(100), r))
	},
	"NFS-013": func(t *RPC) {
		r := WriteRes(100)
		t.Do(t.NFS(nfs3.ProcWrite, WriteArgs(100), r))
		r.Verf[7]++
		t.Do(t.NFS(nfs3.ProcWrite, WriteArgs(100), r))
	},

	"NFS-020": readWith(func(r *nfs3.ReadRes) { r.Count -= 4; r.Attr.Present = false }),
	"NFS-021": readWith(func(r *nfs3.ReadRes) { r.Count = 104; r.Data = make([]byte, 104); r.Attr.Attr.Size = 104 }),
	"NFS-022": readWith(func(r *nfs3.ReadRes) { r.EOF = false }),

	"NFS-030": nfs(nfs3.ProcReadDir, ReadDirArgs(200), &nfs3.ReadDirRes{Entries: entries(10), EOF: true}),
	"NFS-031": func(t *RPC) {
		a := ReadDirArgs(2000)
		a.Verf[0] = 1
		t.Do(t.NFS(nfs3.ProcReadDir, a, &nfs3.ReadDirRes{EOF: true}))
	},
	"NFS-032": nfs(nfs3.ProcReadDir, ReadDirArgs(2000), &nfs3.ReadDirRes{Entries: []nfs3.DirEntry{{FileID: 1, Name: "a/b", Cookie: 2}}, EOF: true}),

	"NFS-040": nfs(nfs3.ProcAccess, &nfs3.AccessArgs{Handle: HandleArgs().Handle, Access: 1}, &nfs3.AccessRes{Access: 3}),
	"NFS-041": nfs(nfs3.ProcAccess, &nfs3.AccessArgs{Handle: HandleArgs().Handle, Access: 0x41}, &nfs3.AccessRes{Access: 1}),
	"NFS-042": func(t *RPC) {
		a := Attr(10)
		a.Mtime.Nsec = 1e9
		t.Do(t.NFS(nfs3.ProcGetAttr, HandleArgs(), &nfs3.GetAttrRes{Attr: a}))
	},
	"NFS-043": nfs(nfs3.ProcLookup, DirOp("a\x00b"), &nfs3.LookupRes{Status: nfs3.ErrNoEnt}),
	"NFS-045": nfs(nfs3.ProcFSInfo, HandleArgs(), &nfs3.FSInfoRes{RTMax: 4096, RTPref: 8192}),
	"NFS-050": compound(0, "tag", 1, 24, 0),
	"NFS-051": compound(5, "tag", 2, 24, 0, 9, 0, 0, 0),
	"NFS-052": compound(0, "gat", 2, 24, 0, 9, 0, 0, 0),
	"NFS-046": func(t *RPC) {
		t.Do(t.NFS(nfs3.ProcFSInfo, HandleArgs(), &nfs3.FSInfoRes{RTMax: 50, WTMax: 4096}))
		t.Do(t.NFS(nfs3.ProcRead, ReadArgs(100), ReadRes(50)))
	},
}

// compound is a COMPOUND of PUTROOTFH and GETATTR (RFC 8881 Sections 18.21 and 18.7); f changes its results.
func compound(status uint32, tag string, results ...uint32) func(*RPC) {
	return func(t *RPC) {
		args := words(xdr.AppendString(nil, "tag"), 1, 2, 24, 9, 0)
		t.Do(t.Exchange(nfs3.Program, 4, 1, args, words(xdr.AppendString(xdr.AppendUint32(nil, status), tag), results...)))
	}
}

func words(b []byte, words ...uint32) []byte {
	for _, w := range words {
		b = xdr.AppendUint32(b, w)
	}
	return b
}

// readWith is an inline READ of 100 octets with another reply.
func readWith(f func(*nfs3.ReadRes)) func(*RPC) {
	return func(t *RPC) {
		r := ReadRes(100)
		f(r)
		t.Do(t.NFS(nfs3.ProcRead, ReadArgs(100), r))
	}
}

func entries(n int) (all []nfs3.DirEntry) {
	for i := range n {
		all = append(all, nfs3.DirEntry{FileID: uint64(i + 1), Name: string(bytes.Repeat([]byte("x"), i+1)), Cookie: uint64(i + 1)})
	}
	return all
}

// goodRPC has everything that the twins change, as it should be.
func goodRPC(t *RPC) {
	t.Do(t.Null())
	for _, n := range []int{0, 1, 4, 5001} {
		x := t.ReadFile(n)
		x.Reply.Invalidate = 0
		t.Do(x)
		t.Do(t.WriteFile(n))
	}
	x := t.ReadFile(4000)
	x.Reply.Invalidate = x.Writes[0].STag
	t.Do(x)
	t.Do(t.ReadDir())
	t.Do(t.ReadDir().LongReply())
	t.Do(t.Long(t.GetAttr()))
	long := t.ReadDir().LongReply()
	t.Do(t.Long(long))
	failed := t.ReadFile(100) // NFS3ERR_IO: the Write chunk comes back unused
	failed.Reply.Body, failed.Writes = append(failed.Reply.Body[:24:24], 0, 0, 0, 5, 0, 0, 0, 0), nil
	failed.Reply.Header.Write = []chunks.WriteChunk{failed.Reply.Header.Write[0]}
	for i := range failed.Reply.Header.Write[0] {
		failed.Reply.Header.Write[0][i].Length = 0
	}
	t.Do(failed)
	several(t, func(*Exchange) {}, 10)
	auths := t.GetAttr()
	auth(auths, sys.Auth(), xdr.Auth{})
	t.Do(auths)
	compound(0, "tag", 2, 24, 0, 9, 0, 0, 0)(t)
	compound(2, "tag", 1, 24, 2)(t)
	back := t.Exchange(0x40000000, 1, 0, nil, nil)
	back.Dir = R
	t.Do(back)
	t.Close()
}

// goodOld speaks RFC 5666.
func goodOld(t *RPC) {
	ccp(t)
	x, done := pulledReply(t)
	t.Do(x)
	r := Pull(x.Reply.Header.Read[0].Segment)
	t.Read(I, r)
	t.Do(done)
	p := t.Null()
	p.Call.Header.Type, p.Call.Header.Align, p.Call.Header.Thresh = 2, 8, 4000
	t.Do(p)
	t.Close()
}

// session is a conversation of a commit log with a ring of 1024 octets: the initiator appends.
type session struct {
	*Trace
	commitlog.Answer
	at, seq uint64
}

const ringTag, tailTag, headTag = 0x1100, 0x2200, 0x3300

// newSession opens one. f changes the answer.
func newSession(mode commitlog.Mode, f func(*commitlog.Answer)) *session {
	s := &session{Trace: New().Startup(), Answer: commitlog.Answer{
		Epoch: 3, Salt: 0x1234, Capacity: 1024, Mode: mode, Hash: commitlog.CRC32C, Persistent: true,
		RingSTag: ringTag, TailSTag: tailTag, HeadSTag: headTag, Head: 512, Tail: 640, NextSeq: 7, LastEpoch: 2,
	}}
	f(&s.Answer)
	s.at, s.seq = s.Answer.Tail, s.NextSeq
	s.Send(I, nil)
	s.Send(R, s.Answer.Append(nil))
	return s
}

// octets returns a record in its format (docs/commitlog-format.md); word is its first word.
func (s *session) octets(word, epoch uint32, seq uint64, payload []byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint64(be.AppendUint32(be.AppendUint32(nil, word), epoch), seq)
	sum := be.AppendUint64(nil, s.Salt)
	sum = append(sum, b[4:16]...)
	b = be.AppendUint64(b, 0) // nothing is proven
	sum = append(append(append(sum, b[:4]...), b[16:24]...), payload...)
	b = append(be.AppendUint32(b, crc32.Checksum(sum, crc32.MakeTable(crc32.Castagnoli))), payload...)
	return append(b, make([]byte, -len(b)&63)...)
}

// put writes, flushes and answers.
func (s *session) put(b []byte) {
	off := s.at % s.Capacity
	s.Write(I, ringTag, off, b)
	s.Flush(I, ringTag, uint32(len(b)), off)
	s.FlushResponse(R)
	s.at += uint64(len(b))
}

// record puts the next record.
func (s *session) record(n int) {
	s.put(s.octets(uint32(n), s.Epoch, s.seq, make([]byte, n)))
	s.seq++
}

// filler puts the filler at the end of the ring; short is by how much it is too short.
func (s *session) filler(short uint32) {
	rest := s.Capacity - s.at%s.Capacity
	s.put(s.octets(1<<31|(uint32(rest)-short), s.Epoch, s.seq, nil))
	s.at += rest - 64 - uint64(short)
}

// store stores the tail, and flushes it in strict mode.
func (s *session) store(tail uint64) {
	s.AtomicWrite(I, tailTag, 0, tail)
	s.AtomicWriteResponse(R)
	if s.Mode == commitlog.Strict {
		s.flushTail()
	}
}

func (s *session) flushTail() {
	s.Flush(I, tailTag, 8, 0)
	s.FlushResponse(R)
}

// appended appends a record of 100 octets: 128 in the ring.
func (s *session) appended() {
	s.record(100)
	s.store(s.at)
}

func unchanged(*commitlog.Answer) {}

// strict is a session in strict mode with one append, and then f.
func strictly(f func(*session)) func() *Trace {
	return func() *Trace {
		s := newSession(commitlog.Strict, unchanged)
		s.appended()
		f(s)
		return s.Trace
	}
}

var commitTwins = map[string]func() *Trace{
	"COMMIT-001": func() *Trace {
		return newSession(commitlog.WAL, func(a *commitlog.Answer) { a.Head, a.Tail = 640, 512 }).Trace
	},
	"COMMIT-002": strictly(func(s *session) { s.at += 64; s.record(10); s.store(s.at) }),
	"COMMIT-003": strictly(func(s *session) { s.seq++; s.appended() }),
	"COMMIT-004": strictly(func(s *session) { s.Epoch++; s.appended() }),
	"COMMIT-005": strictly(func(s *session) {
		b := s.octets(10, s.Epoch, s.seq, make([]byte, 10))
		b[25] ^= 1
		s.put(b)
		s.store(s.at)
	}),
	"COMMIT-006": strictly(func(s *session) { // half of the ring is 512, so a payload has at most 492
		s.filler(0)
		s.record(500)
		s.store(s.at)
	}),
	"COMMIT-007": strictly(func(s *session) { s.filler(64); s.store(s.at) }),
	"COMMIT-008": strictly(func(s *session) {
		s.Flush(I, ringTag, 128, 960)
		s.FlushResponse(R)
	}),
	"COMMIT-009": strictly(func(s *session) {
		s.filler(0)
		for range 4 {
			s.appended() // the last one from 512 on, what was there is not released
		}
		s.appended()
	}),
	"COMMIT-010": strictly(func(s *session) { s.store(s.at) }),
	"COMMIT-011": strictly(func(s *session) { s.record(100); s.store(s.at - 64) }),
	"COMMIT-012": strictly(func(s *session) {
		s.record(100)
		s.Drop(s.Frames[len(s.Frames)-2:]...)
		s.store(s.at)
		s.Renumber()
	}),
	"COMMIT-013": strictly(func(s *session) { s.Mode = commitlog.WAL; s.appended(); s.appended() }),
	"COMMIT-014": strictly(func(s *session) {
		s.record(100)
		s.Frames[len(s.Frames)-2].Payload[19] = 2 // for visibility
		s.store(s.at)
	}),
	"COMMIT-015": strictly(func(s *session) { s.Write(I, tailTag, 0, make([]byte, 8)) }),
	"COMMIT-016": strictly(func(s *session) { s.Immediate(R, s.at+64) }),
}

// goodLog appends twice round the ring.
func goodLog(mode commitlog.Mode) *Trace {
	s := newSession(mode, unchanged)
	for range 20 {
		if s.Capacity-s.at%s.Capacity < 192 {
			s.filler(0)
		}
		s.record(100)
		s.record(44)
		s.store(s.at)
		s.Immediate(R, s.at-192)
	}
	r := decode.ReadRequest{SinkSTag: 9, Size: 8, SourceSTag: headTag}
	s.ReadRequest(I, r)
	s.Tagged(R, verbs.OpReadResponse, 9, 0, binary.BigEndian.AppendUint64(nil, s.at))
	return s.Close()
}

// playedLog judges a conversation. It returns the rules broken.
func playedLog(t *testing.T, conv *Trace) (broken []string) {
	t.Helper()
	j := judge.New(nil, func(v *judge.Violation) {
		t.Log(v)
		if !slices.Contains(broken, v.Rule.ID) {
			broken = append(broken, v.Rule.ID)
		}
	})
	conv.Play(nil, func(ev *decode.Event) { j.Event(ev) })
	j.End()
	return broken
}

// TestTwinsCommit: one change to a good session breaks one rule, and the right one.
func TestTwinsCommit(t *testing.T) {
	for _, mode := range []commitlog.Mode{commitlog.WAL, commitlog.Strict} {
		if got := playedLog(t, goodLog(mode)); got != nil {
			t.Errorf("a good session breaks %v", got)
		}
	}
	for _, r := range judge.CommitRules {
		t.Run(r.ID, func(t *testing.T) {
			talk := commitTwins[r.ID]
			if talk == nil {
				t.Fatal("no twin")
			}
			if got := playedLog(t, talk()); !slices.Equal(got, []string{r.ID}) {
				t.Errorf("broken: %v", got)
			}
		})
	}
}

const (
	linkEthernet   = 1
	linkInfiniBand = 247
)

// judgedRoCE judges packets. It returns the rules broken, without consequences.
func judgedRoCE(t *testing.T, link uint32, packets [][]byte, cut int) (*judge.Report, []string) {
	t.Helper()
	r, err := judge.File(bytes.NewReader(Pcap(link, packets, cut)), nil)
	noErr(t, err)
	var broken []string
	for _, v := range r.Violations {
		if !slices.Contains(broken, v.Rule.ID) {
			broken = append(broken, v.Rule.ID)
		}
	}
	slices.Sort(broken)
	return r, broken
}

// inRoCE are the forms of one conversation.
var inRoCE = map[string]RoCE{
	"RoCE v2": {}, "RoCE v2, IPv6, 1024": {V6: true, MTU: 1024}, "RoCE v1": {V1: true, MTU: 4096}, "InfiniBand": {LID: true},
	"another service": {Service: 0x1000000000000007, MTU: 512}, "without acknowledgements": {NoAcks: true},
}

// TestTwinsRoCE: a conversation of RPC-over-RDMA breaks the same rules whatever carries it.
func TestTwinsRoCE(t *testing.T) {
	for _, table := range []map[string]func(*RPC){rpcrdmaTwins, rpcTwins, nfsTwins, {"good": goodRPC, "goodOld": goodOld}} {
		for id, talk := range table {
			t.Run(id, func(t *testing.T) {
				talk := func(t *RPC) { // behind which each side shows that none of its packets is missing
					talk(t)
					t.Frames = slices.DeleteFunc(t.Frames, func(f *Frame) bool { return f.End != NoEnd })
					t.Do(t.Null())
					t.Do(t.Null())
				}
				want := played(t, talk)
				want = slices.DeleteFunc(want, func(id string) bool { return !strings.HasPrefix(id, "R") && !strings.HasPrefix(id, "N") })
				for name, o := range inRoCE {
					conv := NewRPC()
					talk(conv)
					link := uint32(linkEthernet)
					if o.LID {
						link = linkInfiniBand
					}
					r, got := judgedRoCE(t, link, conv.RoCE(o), 0)
					if !slices.Equal(got, want) {
						t.Errorf("%s: broken: %v, want %v", name, got, want)
						for _, v := range r.Violations {
							t.Log(v)
						}
					}
					why := slices.DeleteFunc(r.Reasons(), func(s string) bool { return strings.Contains(s, "RPCSEC_GSS") })
					if len(why) > 0 || len(r.Connections) != 1 {
						t.Errorf("%s: %q", name, why)
					}
				}
			})
		}
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
