package cases

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Seen is what the peer has said on a connection.
type Seen struct {
	Reply    *mpa.Reply
	NoRTR    bool // the Reply does not offer the RTR of the try
	Answers  []Answer
	Term     *verbs.Terminate
	Reads    int      // of ours that were answered
	Touched  []string // memory of ours that was touched, in words
	Breaches []string // what no peer may do, whatever it receives
	Ended    bool
	Reset    bool // it ended by a reset, or its octets could not be decoded
	Refused  bool // we have sent a Terminate
}

// Answer is an RPC reply, or an RDMA_ERROR.
type Answer struct {
	XID    uint32
	Kind   Kind
	Text   string
	Credit uint32
}

// Answer returns the answer to xid, or nil.
func (s *Seen) Answer(xid uint32) *Answer {
	for i := range s.Answers {
		if s.Answers[i].XID == xid {
			return &s.Answers[i]
		}
	}
	return nil
}

// Finding says how a peer did in a try.
type Finding struct {
	Kind    Kind
	Text    string // what it did
	Verdict Verdict
	Why     string
}

// Judge returns what was seen, and the verdict.
func (t *Try) Judge(s *Seen) Finding {
	f := Finding{Verdict: Fails}
	f.Kind, f.Text = t.outcome(s)
	if len(s.Touched) > 0 {
		f.Text += " (" + strings.Join(s.Touched, ", ") + ")"
	}
	if len(s.Breaches) > 0 {
		f.Why = strings.Join(s.Breaches, "; ")
		return f
	}
	for _, w := range t.Wants {
		if w.Kind == f.Kind && (f.Kind != KindTerminated || w.admits(s.Term)) {
			f.Verdict, f.Why = w.Verdict, w.Why
			break
		}
	}
	if f.Kind == KindDropped && s.Reads < t.Responses {
		f.Verdict, f.Why = Fails, fmt.Sprintf("%d of %d RDMA Reads were answered", s.Reads, t.Responses)
	}
	if s.Term != nil && f.Verdict != Fails && t.executed(s) {
		f.Verdict, f.Why = Fails, "the bad call was executed before"
	}
	lost := t.After != 0 && !s.Refused && f.Kind != KindTerminated && f.Kind != KindClosed && f.Kind != KindRejected && s.Answer(t.After) == nil
	switch {
	case !lost || f.Verdict == Fails:
	case s.Ended && f.Kind != KindAnswered:
		f.Verdict, f.Why = Tolerated, "refused, but the connection ended after it"
	default:
		f.Verdict, f.Why = Fails, "the call after it on the same connection was not answered"
	}
	return f
}

// executed reports whether a call that must not be executed was answered by SUCCESS.
func (t *Try) executed(s *Seen) bool {
	for _, w := range t.Wants {
		if w.Kind == KindAnswered {
			return false
		}
	}
	for _, a := range s.Answers {
		if a.Kind == KindAnswered && a.XID != t.Hello && a.XID != t.After {
			return true
		}
	}
	return false
}

// admits compares codes. Linux's siw exchanges layer and error type.
func (w *Want) admits(t *verbs.Terminate) bool {
	return len(w.Codes) == 0 || slices.Contains(w.Codes, t.Code) || slices.Contains(w.Codes, t.Swapped())
}

func (t *Try) outcome(s *Seen) (Kind, string) {
	switch {
	case s.Reply != nil && (s.Reply.Rejected || s.NoRTR):
		return KindRejected, "rejected the connection in its MPA Reply"
	case s.Term != nil:
		return KindTerminated, "Terminate " + s.Term.String()
	}
	if a := t.subject(s); a != nil {
		return a.Kind, a.Text
	}
	end := "closed the connection"
	if s.Reset {
		end = "reset the connection"
	}
	switch {
	case s.Ended:
		return KindClosed, end
	case t.After != 0 && s.Answer(t.After) != nil:
		return KindDropped, "no answer, and the next call was served"
	case s.Reply != nil && len(t.Steps) == 0 && !t.Hold:
		return KindAccepted, "accepted the connection"
	case s.Reply == nil && !t.Hold:
		return KindSilent, "silence instead of an MPA Reply"
	case t.Hello != 0 && s.Answer(t.Hello) == nil:
		return KindSilent, "silence, from the first call on"
	}
	return KindSilent, "silence"
}

// subject returns the answer that says most about the subject of t: the first that is not SUCCESS, or
// SUCCESS if all answers are there.
func (t *Try) subject(s *Seen) *Answer {
	var found []*Answer
	for i := range s.Answers {
		a := &s.Answers[i]
		if a.XID == t.Hello || a.XID == t.After {
			continue
		}
		if a.Kind != KindAnswered {
			return a
		}
		found = append(found, a)
	}
	if len(found) == 0 || len(found) < len(t.Subjects) {
		return nil
	}
	a := *found[0]
	if len(found) > 1 {
		a.Text = fmt.Sprintf("%s, %d times", a.Text, len(found))
	}
	return &a
}

// Done reports whether there is nothing more to wait for; quiet reports that nothing is missing, but more
// may come.
func (t *Try) Done(s *Seen) (done, quiet bool) {
	if s.Ended || s.Reply != nil && (s.Reply.Rejected || s.NoRTR || len(t.Steps) == 0 && !t.Hold) {
		return true, false
	}
	if t.After != 0 {
		after := s.Answer(t.After) != nil
		return after && t.subject(s) != nil, after || s.Term != nil
	}
	return len(t.Subjects) > 0 && t.subject(s) != nil && !s.Refused, t.Hold || s.Term != nil || t.subject(s) != nil
}

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
