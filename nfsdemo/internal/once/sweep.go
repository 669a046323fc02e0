package once

import (
	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/nfsdemo/internal/once/internal/ledger"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// How many records, or how large a part of the ring, are looked at before their room is released with
// one flush: the records that are written again must fit beside them.
const (
	sweepBatch = 256
	sweepShare = 16
)

// pass is a part of a sweep: the records that were looked at under one lock.
type pass struct {
	last   uint64               // number of the last record whose room can be released; 0: none
	copies []*commitlog.Pending // that must be durable before that
	octets int                  // octets passed
	end    bool                 // there are no more records
	wait   chan struct{}        // closed when the next record may be looked at; nil: now
}

// sweep releases room, from the oldest record to the last one that existed when it began. Records that
// still count are written again first. Only one sweep runs at a time.
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

// giveBack releases the room of the passed records. Its errors are final.
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

// oldest returns the oldest record that was not passed, nil if there is none. The log returns each
// record only once, so j.held keeps it until it is passed.
func (j *Journal) oldest() (rec *commitlog.Record, err error) {
	if j.held == nil {
		if j.held, err = j.log.TryNext(); err != nil {
			j.end(err)
		}
	}
	return j.held, err
}
