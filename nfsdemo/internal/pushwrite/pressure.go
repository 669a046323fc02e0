package pushwrite

import (
	"context"
	"time"
)

// leastWindow is the part of its ring that a client may always use, in octets.
const leastWindow = 64 << 10

// pressTime limits the call that asks a client.
const pressTime = 2 * time.Second

// press asks the client of a log to use less of its ring while one of its records cannot be applied, or
// when all logs together hold more than Config.Backlog, until they hold less than half of that.
func (s *Server) press(l *log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	behind := l.p.Tail() - min(l.p.Tail(), l.applied)
	s.backlog += min(behind, l.size) - l.counted
	l.counted = min(behind, l.size)
	switch {
	case s.backlog > s.cfg.Backlog:
		s.pressed = true
	case s.backlog < s.cfg.Backlog/2:
		s.pressed = false
	}
	var want uint64
	switch {
	case l.blocked != nil:
		want = max(l.size/4, leastWindow)
	case s.pressed:
		want = max(s.cfg.Backlog/uint64(len(s.logs)), leastWindow)
	}
	if want == l.window || l.condemned != nil {
		return
	}
	l.window = want
	s.ctr.pressed.Add(1)
	s.start(func() {
		ctx, cancel := context.WithTimeout(s.ctx, pressTime)
		defer cancel()
		_ = l.p.Pressure(ctx, want, 0) // only a request; a client that misses it gets it with its next session
	})
}
