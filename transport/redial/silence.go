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
)

// unansweredFactor times Config.Silence is how long a live server may take for an answer.
// Choice: a server that drops a duplicate of a call that still runs, like Linux's, sends the reply
// to the connection that is gone; only another transmission gets it.
const unansweredFactor = 4

// silence looks for connections on which nothing arrives. Choice: only the reply to an RPC NULL
// call shows that a server still serves; a TCP keep-alive, which net.Dialer sends on idle
// connections, or an empty RDMA Write is answered by its kernel. Nothing is asked while no call is
// outstanding.
type silence struct {
	timer *time.Timer // nil: not running
	link  *link       // the connection last looked at
	heard uint64      // its value of heard
	since time.Time   // when heard last changed
	asked bool        // a NULL call was made
	due   time.Time   // when the next look is due
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

// watchFrom notes that a call is sent now. The caller holds r.mu, and the call is not in r.out yet.
func (r *Caller) watchFrom(now time.Time) {
	if r.cfg.Silence < 0 {
		return
	}
	if r.out.First() == nil {
		r.watch.since, r.watch.asked = now, false
	}
	if r.watch.timer == nil {
		r.watch.due = now.Add(r.cfg.Silence / 4)
		r.watch.timer = time.AfterFunc(r.cfg.Silence/4, r.look)
	}
}

// look runs four times in Config.Silence while calls are outstanding.
func (r *Caller) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.watch
	if r.out.First() == nil || r.ctx.Err() != nil {
		w.timer = nil
		return
	}
	w.timer.Reset(r.cfg.Silence / 4)
	now := time.Now()
	ran := w.onTime(now, r.cfg.Silence/4)
	l := r.link
	if l == nil {
		return
	}
	if n := l.Received(); l != w.link || n != w.heard || !ran {
		w.link, w.heard, w.since, w.asked = l, n, now, false
	}
	switch quiet := now.Sub(w.since); {
	case quiet >= r.cfg.Silence:
		r.silent++
		go l.Abort(errSilent)
	case ran && now.Sub(r.out.First().at) >= unansweredFactor*r.cfg.Silence:
		r.silent++
		go l.Abort(errUnanswered)
	case quiet >= r.cfg.Silence/2 && !w.asked:
		w.asked = true
		go r.ask(l, r.out.First().call.Prog, r.out.First().call.Vers)
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
