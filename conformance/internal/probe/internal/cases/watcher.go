package cases

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Watcher follows what the peer sends in a try, and answers its RDMA Reads. It must be used from one
// goroutine.
type Watcher struct {
	Seen Seen

	try   *Try
	mem   [][]byte // contents of the memories that can be written
	msn   [ddp.NumQueues]uint32
	part  [ddp.NumQueues][]byte // of messages that have not ended
	out   [][]byte              // ULPDUs to send
	spoke bool                  // the peer may send FPDUs, since it has received one
}

// Watch returns a watcher for t.
func Watch(t *Try) *Watcher {
	w := &Watcher{try: t, mem: make([][]byte, len(t.Memory))}
	for i, m := range t.Memory {
		if m.Data == nil {
			w.mem[i] = make([]byte, m.Segment.Length)
		}
	}
	return w
}

// Sent reports that an FPDU was sent: from now on the peer may send FPDUs.
func (w *Watcher) Sent() { w.spoke = true }

func (w *Watcher) breach(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); len(w.Seen.Breaches) < 4 {
		w.Seen.Breaches = append(w.Seen.Breaches, s)
	}
}

// ULPDU takes the next ULPDU of the peer and returns ULPDUs to send back. It borrows u.
func (w *Watcher) ULPDU(u []byte) [][]byte {
	var s ddp.Segment
	w.out = nil
	if !w.spoke {
		w.breach("it sent an FPDU before it had received one (RFC 5044 Section 7.1.2)")
	}
	if w.Seen.Term != nil {
		w.breach("it sent an FPDU after its Terminate (RFC 5040 Section 5.4)")
	}
	if !s.Parse(u) || u[0]&3 != ddp.Version || u[1]>>6 != 1 {
		w.breach("a DDP segment that cannot be read: %x", u[:min(len(u), 18)])
		return nil
	}
	body := u[s.HeaderLen():]
	if s.Tagged {
		w.tagged(&s, body)
	} else {
		w.untagged(&s, body)
	}
	return w.out
}

// untagged reassembles the messages of the queues.
func (w *Watcher) untagged(s *ddp.Segment, body []byte) {
	if s.QN >= ddp.NumQueues {
		w.breach("a message on queue %d", s.QN)
		return
	}
	if want := w.msn[s.QN] + 1; s.MSN != want || int(s.MO) != len(w.part[s.QN]) {
		w.breach("message %d at offset %d of queue %d, want %d at %d", s.MSN, s.MO, s.QN, want, len(w.part[s.QN]))
		return
	}
	w.part[s.QN] = append(w.part[s.QN], body...)
	if !s.Last {
		return
	}
	msg := w.part[s.QN]
	w.part[s.QN] = nil
	w.msn[s.QN]++
	switch op := verbs.Opcode(s.Control & 0x0f); {
	case s.QN == ddp.QNSend && op >= verbs.OpSend && op <= verbs.OpSendSEInvalidate:
		w.message(msg)
	case s.QN == ddp.QNRequest && op == verbs.OpReadRequest && len(msg) == readLen:
		w.read(msg)
	case s.QN == ddp.QNTerminate && op == verbs.OpTerminate:
		w.terminate(msg)
	default:
		w.breach("a message with opcode %v on queue %d", op, s.QN)
	}
}

func (w *Watcher) terminate(msg []byte) {
	t, err := verbs.ParseTerminate(append([]byte(nil), msg...))
	switch {
	case err != nil:
		w.breach("a Terminate that cannot be read: %x", msg)
	case !t.Code.Registered() && !t.Swapped().Registered():
		w.breach("a Terminate with a code that is not registered: %v", t.Code)
	}
	w.Seen.Term = &t
}

// Startup takes the peer's MPA Reply, which must fit the Request.
func (w *Watcher) Startup(req *mpa.Request, rep *mpa.Reply) {
	w.Seen.Reply = rep
	if rep.Rejected {
		return
	}
	w.Seen.NoRTR = w.try.RTR != 0 && rep.Word.RTR&w.try.RTR == 0
	for _, b := range replyBreaches(req, rep) {
		w.breach("%s", b)
	}
}

// replyBreaches returns what is wrong with the accepting answer to req.
func replyBreaches(req *mpa.Request, rep *mpa.Reply) (bad []string) {
	enhanced := req.Enhanced && req.Rev >= 2
	if rep.Rev > req.Rev {
		bad = append(bad, fmt.Sprintf("its Reply has revision %d, above that of the Request (RFC 5044 Section 7.1.2)", rep.Rev))
	}
	if rep.Enhanced != enhanced {
		bad = append(bad, fmt.Sprintf("S of its Reply is %t, of the Request %t (RFC 6581 Section 10)", rep.Enhanced, enhanced))
	}
	if !rep.Enhanced || !enhanced {
		return bad
	}
	if rep.Word.PeerToPeer != req.Word.PeerToPeer {
		bad = append(bad, fmt.Sprintf("A of its Reply is %t (RFC 6581 Section 9.2)", rep.Word.PeerToPeer))
	}
	if ird := req.Word.IRD; ird != mpa.NotNegotiated && rep.Word.ORD != mpa.NotNegotiated && rep.Word.ORD > ird {
		bad = append(bad, fmt.Sprintf("ORD of its Reply is %d, above the IRD of %d (RFC 6581 Section 9.1)", rep.Word.ORD, ird))
	}
	return bad
}
