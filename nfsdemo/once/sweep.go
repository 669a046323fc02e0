package once

import (
	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/nfsdemo/once/internal/ledger"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// Before their room is given back, with one flush, so many records are looked at, or so
// large a part of the ring: what is written again has to fit beside them.
const (
	sweepBatch = 256
	sweepShare = 16
)

// pass is a part of a sweep: what was looked at under one lock.
type pass struct {
	last   uint64               // number of the last record whose room can be given back; 0: none
	copies []*commitlog.Pending // that must be durable before that
	octets int                  // passed
	end    bool                 // there is no further record
	wait   chan struct{}        // closed when the next record may be looked at; nil: now
}

// sweep gives room back, from the oldest record to the last one that there was when it
// began: what still counts is written again first. There is one at a time.
func (j *Journal) sweep() {
	j.mu.Lock()
	left := j.led.Stats().Octets
	j.mu.Unlock()
	for left > 0 && j.Err() == nil {
		p := j.pass()
		if j.giveBack(&p) != nil || p.end {
			break
		}
		left -= p.octets
		if p.wait != nil {
			select {
			case <-p.wait:
			case <-j.ctx.Done():
			}
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sweeping = false
	j.stats.Sweeps++
	j.tell()
}

// giveBack gives the room of what was passed back. Its errors are final.
func (j *Journal) giveBack(p *pass) error {
	for _, w := range p.copies {
		if err := j.wait(w); err != nil {
			return err
		}
	}
	if p.last == 0 {
		return nil
	}
	if err := j.log.Release(p.last); err != nil {
		j.end(err)
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.led.Released()
	j.tell()
	return nil
}

// pass looks at the next records and begins to append again those that still count.
func (j *Journal) pass() (p pass) {
	j.order.Lock()
	defer j.order.Unlock()
	most := int(j.log.Info().Capacity) / sweepShare
	for n := 0; n < sweepBatch && p.octets < most; n++ {
		rec, err := j.oldest()
		if err != nil || rec == nil {
			p.end = true
			return p
		}
		j.mu.Lock()
		b, fate := j.led.Pass(rec.Payload, j.now())
		if fate == ledger.Wait {
			p.wait = j.change()
		}
		j.mu.Unlock()
		if p.wait != nil {
			return p
		}
		if fate == ledger.Copy && !mutant.Is(mutant.HeadTooFar) {
			w, err := j.p.Begin(b)
			if err != nil {
				p.end = true
				return p
			}
			p.copies = append(p.copies, w)
		}
		j.held = nil
		p.last = rec.Seq
		p.octets += len(rec.Payload)
	}
	return p
}

// oldest returns the oldest record that was not passed, nil if there is none. The log hands
// each out once, so it is held until then.
func (j *Journal) oldest() (rec *commitlog.Record, err error) {
	if j.held == nil {
		if j.held, err = j.log.TryNext(); err != nil {
			j.end(err)
		}
	}
	return j.held, err
}
