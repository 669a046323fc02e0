package judge_test

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// startupOf returns a conversation with the given startup and one Send each way.
func startupOf(req, rep mpa.Frame) func() *twin.Trace {
	return func() *twin.Trace {
		t := twin.New()
		t.Request(req)
		t.Reply(rep)
		t.Send(twin.I, octets(20))
		t.Send(twin.R, octets(20))
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
func marked() *twin.Trace {
	t := twin.New()
	f := enhanced(deep)
	f.Markers = true
	t.Request(f)
	t.Reply(f)
	t.Send(twin.I, octets(1500))
	t.Send(twin.R, octets(20))
	t.Send(twin.I, octets(455))
	t.Send(twin.I, octets(20))
	return t.Close()
}

// p2p returns a peer-to-peer conversation whose RTR is an RDMA Write.
func p2p() *twin.Trace {
	w := mpa.Enhanced{PeerToPeer: true, RTR: mpa.RTRWrite | mpa.RTRRead, IRD: 4, ORD: 4}
	t := twin.New()
	t.Request(enhanced(w))
	w.RTR = mpa.RTRWrite
	t.Reply(enhanced(w))
	t.Write(twin.I, 1, 0, nil)
	t.Send(twin.R, octets(20))
	t.Send(twin.I, octets(20))
	return t.Close()
}

// ofRequest and ofReply change the startup frames.
func ofRequest(f func(*twin.Startup)) func(*twin.Trace) {
	return func(t *twin.Trace) { f(t.Frames[0].Startup) }
}

func ofReply(f func(*twin.Startup)) func(*twin.Trace) {
	return func(t *twin.Trace) { f(t.Frames[1].Startup) }
}

// onlyStartup returns a conversation of two startup frames.
func onlyStartup() *twin.Trace {
	t := twin.New()
	t.Request(enhanced(deep))
	t.Reply(enhanced(deep))
	return t.Close()
}

var mpaTwins = map[string]twinOf{
	"MPA-001": {good: onlyStartup, mutate: ofReply(func(s *twin.Startup) { s.Reply = false })},
	"MPA-002": {good: onlyStartup, mutate: func(t *twin.Trace) { t.Swap(t.Frames[0], t.Frames[1]) }},
	"MPA-003": {good: onlyStartup, mutate: ofReply(func(s *twin.Startup) { s.Key = "MPA ID Rap Frame" })},
	"MPA-004": {good: onlyStartup, mutate: ofRequest(func(s *twin.Startup) { s.PrivateData = octets(509) })},
	"MPA-005": {good: onlyStartup, mutate: ofRequest(func(s *twin.Startup) { s.Rev = 3 })},
	"MPA-006": {good: onlyStartup, mutate: ofRequest(func(s *twin.Startup) { s.Enhanced, s.PrivateData, s.Flags = false, octets(2), 0x10 })},
	"MPA-007": {good: usual, mutate: ofRequest(func(s *twin.Startup) { s.Flags = 0x20 })},
	"MPA-008": {good: usual, mutate: ofReply(func(s *twin.Startup) { s.Flags = 0x08 })},
	"MPA-009": {good: plain, mutate: ofRequest(func(s *twin.Startup) { s.Flags = 0x10 })},
	"MPA-010": {good: usual, mutate: func(t *twin.Trace) { t.Swap(t.Frames[1], t.Frames[2]) }},
	"MPA-011": {good: usual, mutate: func(t *twin.Trace) { t.Swap(t.Frames[2], t.Frames[3]) }},
	"MPA-012": {good: usual, mutate: ofReply(func(s *twin.Startup) { s.Enhanced = false })},
	"MPA-013": {good: plain, mutate: ofReply(func(s *twin.Startup) { s.Rev = 2 })},
	"MPA-014": {good: usual, mutate: ofReply(func(s *twin.Startup) { s.Word.IRD = 3 })},
	"MPA-015": {good: usual, mutate: ofReply(func(s *twin.Startup) { s.Word.ORD = 5 })},
	"MPA-016": {good: unasked, mutate: ofReply(func(s *twin.Startup) { s.Word.ORD = 4 })},
	"MPA-017": {good: usual, mutate: ofRequest(func(s *twin.Startup) { s.Word.RTR = mpa.RTRRead })},
	"MPA-018": {good: p2p, mutate: ofReply(func(s *twin.Startup) { s.Word.PeerToPeer, s.Word.RTR = false, 0 })},
	"MPA-019": {good: usual, mutate: func(t *twin.Trace) {
		t.Frames[0].Startup.Word.PeerToPeer = true
		t.Frames[1].Startup.Rejected = true
		t.Drop(t.Frames[2], t.Frames[3])
	}},
	"MPA-020": {good: p2p, mutate: func(t *twin.Trace) { t.Drop(t.Nth(verbs.OpWrite, 0)); t.Swap(t.Frames[2], t.Frames[3]) }},
	"MPA-021": {good: unasked, mutate: func(t *twin.Trace) {
		none := mpa.Enhanced{IRD: mpa.NotNegotiated, ORD: mpa.NotNegotiated}
		t.Frames[0].Startup.Word, t.Frames[1].Startup.Word = none, none
	}},
	"MPA-022": {good: usual, mutate: ofReply(func(s *twin.Startup) { s.Rejected = true })},

	"MPA-030": {good: usual, mutate: func(t *twin.Trace) { t.Nth(verbs.OpSend, 1).BadCRC = true }},
	"MPA-031": {good: every, mutate: func(t *twin.Trace) {
		t.Nth(verbs.OpSend, 0).Edit = func(b []byte) { b[len(b)-5] = 0x72 } // 2+18+21: three octets of pad
	}},
	"MPA-032": {good: usual, mutate: func(t *twin.Trace) { t.Nth(verbs.OpSend, 0).Payload = octets(64768) }},
	"MPA-033": {good: usual, mutate: func(t *twin.Trace) { t.Nth(verbs.OpSend, 1).Cut = 5 }},

	"MPA-040": {good: marked, mutate: func(t *twin.Trace) {
		t.Nth(verbs.OpSend, 0).Edit = func(b []byte) { binary.BigEndian.PutUint16(b[512+2:], 4) }
	}},
	"MPA-041": {good: marked, mutate: func(t *twin.Trace) {
		t.Nth(verbs.OpSend, 0).Edit = func(b []byte) { binary.BigEndian.PutUint16(b[1024:], 1) }
	}},
	"MPA-042": {good: lastAtMarker, mutate: func(t *twin.Trace) {
		t.Before(t.Frames[len(t.Frames)-2], &twin.Frame{Dir: twin.I, Raw: make([]byte, 4)})
	}},
}

// lastAtMarker is a conversation whose last FPDU of the initiator ends where a marker is due.
func lastAtMarker() *twin.Trace {
	t := twin.New()
	f := enhanced(deep)
	f.Markers = true
	t.Request(f)
	t.Reply(f)
	t.Send(twin.I, octets(512-4-2-18-4))
	return t.Close()
}
