package commitlog

import (
	"fmt"
	"time"
)

// silence notices that a consumer gives no sign of life while appends wait for it. It counts ticks and not time: a
// process that was stopped itself must not give up when it goes on.
type silence struct {
	limit time.Duration // 0: none
	life  uint64        // signs of life so far
	seen  uint64        // life at the last tick
	ticks int           // without one
	timer *time.Timer   // nil: nobody waits
}

// silenceTicks is how often to look in one limit.
const silenceTicks = 4

// begin is called when an append begins.
func (s *silence) begin(p *Producer) {
	if s.limit <= 0 || s.timer != nil {
		return
	}
	s.seen, s.ticks = s.life, 0
	s.timer = time.AfterFunc(s.limit/silenceTicks, p.look)
}

func (s *silence) stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// look runs while appends wait.
func (p *Producer) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.silence
	switch {
	case s.timer == nil: // stopped
		return
	case p.m.Waiting() == 0: // for a whole tick, or nearly: the next append starts again
		s.timer = nil
		return
	case s.life != s.seen:
		s.seen, s.ticks = s.life, 0
	case s.ticks+1 < silenceTicks:
		s.ticks++
		if p.link != nil && p.m.Blocked() {
			p.link.probe()
		}
	default:
		p.giveUp()
		return
	}
	s.timer.Reset(s.limit / silenceTicks)
}

// giveUp ends all appends and the session. The caller holds p.mu.
func (p *Producer) giveUp() {
	p.silence.timer = nil
	err := fmt.Errorf("%w for %v", ErrSilent, p.silence.limit)
	over := p.m.GiveUp(err, fmt.Errorf("%w: %w", ErrInDoubt, err))
	if l := p.link; l != nil {
		p.lost(l)
		go l.silent() // in a goroutine: it may end sessions, which takes p.mu
	}
	p.finish(over)
}
