package engine

import (
	"errors"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// State is what a connection may still send and receive. Only the functions of this file change it, under the lock of
// the Sender. State may be read without it.
//
//	state        is sent                            is received          left by
//	New          nothing                            nothing              StartUp: Starting; Fail: Closed, Draining
//	Starting     a frame of the startup             a frame              Open: Held, Open; Fail: Draining, Closed
//	Held         nothing (RFC 5044 Section 7.1.2)   messages             first good FPDU: Open; Fail: Draining, Closed
//	Open         messages                           messages             Close: Closing; Fail: the three below
//	Closing      what is queued; nothing is added   messages             Fail, when all is written or that took too long
//	Terminating  what has begun, then a Terminate   is dropped           Shut, after the peer's FIN or a timeout
//	Draining     what has begun                     is dropped           Shut, after the peer's FIN or a timeout
//	Closed       nothing                            nothing
type State uint32

// The states of a connection.
const (
	StateNew State = iota
	StateStarting
	StateHeld
	StateOpen
	StateClosing
	StateTerminating
	StateDraining
	StateClosed
)

// Up reports whether the startup is over and the connection is not: its first fatal error is still to come.
func (s State) Up() bool { return s >= StateHeld && s <= StateClosing }

// Ended reports whether the connection has had its first fatal error, of which Sender.Err tells.
func (s State) Ended() bool { return s > StateClosing }

// State returns the state of the connection. It needs no lock.
func (s *Sender) State() State { return State(s.state.Load()) }

func (s *Sender) enter(next State) { s.state.Store(uint32(next)) }

// Err returns the first fatal error, nil while the connection lives.
func (s *Sender) Err() error { return s.err }

// StartUp begins the startup of a new connection. An error is that of a connection that has ended.
func (s *Sender) StartUp() error {
	if s.State() == StateNew {
		s.enter(StateStarting)
	}
	return s.err
}

// open begins the exchange of messages.
func (s *Sender) open(initiator bool) {
	if initiator {
		s.enter(StateOpen)
		return
	}
	s.enter(StateHeld)
}

// release lets a responder send: the first FPDU was good.
func (s *Sender) release() {
	if s.State() == StateHeld { // Close or a failure may have come first
		s.enter(StateOpen)
	}
}

// Close refuses further work requests. It reports whether there may be output to wait for before Fail.
func (s *Sender) Close() bool {
	if s.State() == StateOpen {
		s.enter(StateClosing)
	}
	return s.State() == StateClosing
}

// Fail ends the connection with err. It drops everything that has not been taken, and appends the completions that are
// due to out. A Terminate that err asks for is sent last, after the message that is being sent (RFC 5040 Section 5.4);
// otherwise, and unless the end is graceful, nothing more is sent. writing says that a batch is being written: what
// follows it completes after it, see Prune. A connection ends once: a second Fail does nothing.
func (s *Sender) Fail(err error, graceful, writing bool, out []Completion) []Completion {
	if s.State().Ended() {
		return out
	}
	if p, ok := errors.AsType[*verbs.ProtocolError](err); ok && s.State() == StateHeld {
		p.Terminate = nil // not even a Terminate may be sent before the first good FPDU
	}
	was, t := s.State(), terminateFor(err)
	s.err = err // before the state: who sees that it has ended asks why
	out = s.abandon(out, err, writing)
	switch {
	case t != nil && was >= StateOpen: // RFC 5044 Section 7.1.2: before that nothing may be sent
		s.terminate(t)
		s.enter(StateTerminating)
	case t != nil || graceful:
		s.enter(StateDraining)
	default:
		s.enter(StateClosed)
	}
	return out
}

// Shut is called after Fail, when nothing more can be written, not even a Terminate.
func (s *Sender) Shut() {
	if s.term != nil { // it was not taken in time
		s.unpin(s.term)
		s.term = nil
	}
	s.arena.Drop()
	s.enter(StateClosed)
}

// terminateFor returns the Terminate that err asks for, nil if none. A Terminate of the peer is not answered with
// another (RFC 5040 Section 5.4).
func terminateFor(err error) *verbs.Terminate {
	if e, ok := errors.AsType[*verbs.ProtocolError](err); ok && e.Terminate != nil {
		return e.Terminate
	}
	if e, ok := errors.AsType[*verbs.LocalError](err); ok {
		return &verbs.Terminate{Code: e.Code}
	}
	return nil
}

// terminate queues t as the last message of this direction.
func (s *Sender) terminate(t *verbs.Terminate) {
	it := &message{}
	it.template(&verbs.WR{Op: verbs.OpTerminate})
	s.frame(it, t.Append(nil), nil, ddp.MaxPayload(false, s.MULPDU))
	s.term = it
}

// abandon drops everything that has not been taken, and completes it and all requests in flight with err. What the
// writer holds completes when it has been written. While it writes, work requests that were not taken complete after
// that: who posts a Send behind a Write takes the completion of the Send for that of both, and would reuse memory that
// is still being written from.
func (s *Sender) abandon(out []Completion, err error, writing bool) []Completion {
	out = s.order.abort(out, err)
	for s.inFlight.Len() > 0 {
		s.inFlight.Pop()
	}
	s.expected = 0 // what still arrives is dropped
	s.Long.Store(0)
	for s.requests.Len() > 0 {
		it := s.requests.Pop()
		if writing {
			s.late = s.drop(&it, s.late, err)
		} else {
			out = s.drop(&it, out, err)
		}
	}
	for s.responses.Len() > 0 {
		it := s.responses.Pop()
		out = s.drop(&it, out, err)
	}
	return out
}
