package redial

import (
	"context"
	"errors"
	"time"

	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// Reasons why a Caller gives up a connection.
var (
	errSilent     = errors.New("transport: the server sent nothing while calls were outstanding")
	errUnanswered = errors.New("transport: the server is alive but has not answered a call")
	errHeld       = errors.New("transport: calls whose callers have left hold credits, and the server does not answer them")
)

// unansweredFactor times Config.Silence is how long a live server may take for an answer.
// Choice: a server that drops a duplicate of a call that still runs, like Linux's, sends the reply
// to the connection that is gone; only another transmission gets it.
const unansweredFactor = 16

// silence looks for connections on which nothing arrives. Choice: only the reply to an RPC NULL
// call shows that a server still serves; a TCP keep-alive, which net.Dialer sends on idle
// connections, or an empty RDMA Write is answered by its kernel. Nothing is asked while the server owes
// nothing.
type silence struct {
	timer      *time.Timer // not nil: something was sent, and perhaps not all is answered
	link       *link       // the connection last looked at
	heard      uint64      // its value of heard
	since      time.Time   // when heard last changed, or the first of what is owed was sent
	asked      bool        // a NULL call was made
	prog, vers uint32      // for that
	due        time.Time   // when the next look is due
}

// onTime reports whether a look at now came when it was due. If it came much later, this process,
// or its machine, was stopped, and nothing is known about the server. What it has sent waits in the
// socket: giving up the connection now could lose answers that the server has already forgotten,
// and calls would run twice.
func (s *silence) onTime(now time.Time, every time.Duration) bool {
	ok := now.Sub(s.due) < every
	s.due = now.Add(every)
	return ok
}

// stop stops looking.
func (s *silence) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// watchFrom notes that a call of a program is sent now. The caller holds r.mu.
func (r *Caller) watchFrom(now time.Time, call *rpc.Call) {
	w := &r.watch
	w.prog, w.vers = call.Prog, call.Vers
	if r.cfg.Silence < 0 || w.timer != nil {
		return
	}
	w.since, w.asked = now, false
	w.due = now.Add(r.cfg.Silence / 4)
	w.timer = time.AfterFunc(r.cfg.Silence/4, r.look)
}

// look runs four times in Config.Silence until all that was sent is answered. What a caller has left counts as well: if
// only calls that somebody waits for did, callers whose deadlines are shorter than Silence would never learn that the
// connection is dead.
func (r *Caller) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, l := &r.watch, r.link
	if r.ctx.Err() != nil || l == nil && r.out.Len() == 0 {
		w.timer = nil
		return
	}
	w.timer.Reset(r.cfg.Silence / 4)
	now := time.Now()
	ran := w.onTime(now, r.cfg.Silence/4)
	if l == nil {
		return
	}
	if n := l.Received(); l != w.link || n != w.heard || !ran {
		w.link, w.heard, w.since, w.asked = l, n, now, false
		if r.out.Len() == 0 && l.Stats().InFlight == 0 {
			w.timer.Stop() // nothing is owed
			w.timer = nil
			return
		}
	}
	first, left := r.out.First(), r.left.First()
	var why error
	switch quiet := now.Sub(w.since); {
	case quiet >= r.cfg.Silence:
		why = errSilent
	case ran && first != nil && now.Sub(first.at) >= unansweredFactor*r.cfg.Silence:
		why = errUnanswered
	case ran && left != nil && left.link == l && now.Sub(left.at) >= r.cfg.Silence && l.Stats().Waiting > 0:
		// A call that was cancelled keeps its credit until it is answered, because the server may still use its memory.
		// A slow one harms nobody, but calls that wait for a credit must not wait for ever.
		why = errHeld
	case quiet >= r.cfg.Silence/2 && !w.asked:
		w.asked = true
		go r.ask(l, w.prog, w.vers)
	}
	if why != nil {
		r.silent++
		go l.Abort(why)
	}
}

// ask makes a NULL call to find out whether the server still serves.
func (r *Caller) ask(l *link, prog, vers uint32) {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Silence/2)
	defer cancel()
	err := r.null(ctx, l, prog, vers)
	r.cfg.Logger.Debug("transport: asked a silent server", zap.Error(err))
}

// null makes a NULL call on a connection, once.
func (r *Caller) null(ctx context.Context, l *link, prog, vers uint32) error {
	t := r.newCall(&rpc.Call{Prog: prog, Vers: vers})
	t.lend()
	var reply rpc.Reply
	err := l.Do(ctx, &t.call, &reply)
	reply.Release()
	r.endCall(t)
	return err
}
