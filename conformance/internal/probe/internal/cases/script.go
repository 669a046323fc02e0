package cases

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// script builds a try. It begins with a NULL call that is answered, so that credits are granted and the rest
// happens on an established connection.
type script struct {
	Try
	g   *gen
	msn uint32 // of the next Send
	req uint32 // of the next message of queue 1
	bad uint32 // the XID that the try is about
}

// gen builds the table. No XID occurs twice in it, or a duplicate request cache would answer.
type gen struct {
	Target
	serial uint32
}

func (g *gen) xid() uint32 {
	g.serial++
	return g.serial
}

// rpc begins a try after a NULL call.
func (g *gen) rpc(name string) *script {
	s := g.bare(name)
	s.Hello = g.xid()
	s.send(g.null(s.Hello))
	s.Steps[0].Await = s.Hello
	return s
}

// bare begins a try without one.
func (g *gen) bare(name string) *script {
	return &script{Try: Try{Name: name}, g: g, msn: ddp.FirstMSN, req: ddp.FirstMSN, bad: g.xid()}
}

// about says that xid must be answered.
func (s *script) about(xids ...uint32) *script {
	s.Subjects = append(s.Subjects, xids...)
	return s
}

func (s *script) step(st Step) *script {
	s.Steps = append(s.Steps, st)
	return s
}

// ulpdu sends a DDP segment.
func (s *script) ulpdu(u []byte) *script { return s.step(Step{ULPDU: u}) }

// send sends a message in one segment, and notes what its lists offer.
func (s *script) send(msg []byte) *script {
	u := untagged(uint8(verbs.OpSend), ddp.QNSend, s.msn, msg)
	s.msn++
	s.offer(msg)
	return s.ulpdu(u)
}

// offer records the memory that the header of msg offers, even if it does not exist.
func (s *script) offer(msg []byte) {
	s.Said = append(s.Said, declared(msg)...)
	var h rpcrdma.Header
	if _, err := h.Decode(msg, nil); err == nil && h.XID == s.bad {
		s.Lists = h.Lists
	}
}

// then ends the try with another NULL call, which must be answered.
func (s *script) then(wants ...[]Want) Try {
	s.After = s.g.xid()
	s.send(s.g.null(s.After))
	s.Steps[len(s.Steps)-1].Spare = true
	return s.want(wants...)
}

// want ends the try.
func (s *script) want(wants ...[]Want) Try {
	for _, w := range wants {
		s.Wants = append(s.Wants, w...)
	}
	return s.Try
}

// memory offers data under an STag of the probe.
func (s *script) memory(data []byte, how Reading) chunks.Segment {
	seg := s.segment(len(data))
	s.Memory = append(s.Memory, Memory{Segment: seg, Data: data, Reading: how})
	return seg
}

// room offers n octets for writing.
func (s *script) room(n int) chunks.Segment {
	seg := s.segment(n)
	s.Memory = append(s.Memory, Memory{Segment: seg})
	return seg
}

func (s *script) segment(n int) chunks.Segment {
	k := uint32(len(s.Memory) + 1)
	return chunks.Segment{Handle: chunks.Handle(0x7e570000 + k<<8 + s.bad&0xff), Length: uint32(n), Offset: uint64(k) << 32}
}
