package once

import (
	"github.com/stag-rdma/stag/nfsdemo/once/internal/ledger"
	"github.com/stag-rdma/stag/nfsdemo/once/internal/mutant"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// sweepBatch is how many records are looked at before their room is given back, with one
// flush.
const sweepBatch = 256

// sweep gives room back, from the oldest record to the last one that there was when it
// began: what still counts is written again first. There is one at a time. It stops early
// at a call whose reply is just being recorded; the next sweep goes on there.
func (j *Journal) sweep() {
	j.mu.Lock()
	left := j.led.Stats().Octets
	j.mu.Unlock()
	for left > 0 && j.Err() == nil {
		n, more := j.sweepSome()
		left -= n
		if !more {
			break
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.led.Swept()
	j.sweeping = false
	j.stats.Sweeps++
	j.roomy()
}

// sweepSome is a part of a sweep. It returns the octets it has passed, and whether to go on.
func (j *Journal) sweepSome() (octets int, more bool) {
	last, copies, octets, more := j.passSome()
	for _, w := range copies {
		if j.wait(w) != nil {
			return octets, false // it is final
		}
	}
	if last == 0 {
		return octets, false
	}
	if err := j.log.Release(last); err != nil {
		j.end(err)
		return octets, false
	}
	j.mu.Lock()
	j.roomy()
	j.mu.Unlock()
	return octets, more
}

// passSome looks at the next records and begins to append again those that still count. It
// returns the number of the last record whose room can be given back when that is durable.
func (j *Journal) passSome() (last uint64, copies []*commitlog.Pending, octets int, more bool) {
	j.order.Lock()
	defer j.order.Unlock()
	for range sweepBatch {
		rec := j.held
		if rec == nil {
			var err error
			if rec, err = j.log.TryNext(); err != nil {
				j.end(err)
				return last, copies, octets, false
			}
		}
		if rec == nil {
			return last, copies, octets, false
		}
		j.held = nil
		j.mu.Lock()
		b, fate := j.led.Pass(rec.Payload, j.now())
		j.mu.Unlock()
		if mutant.Is(mutant.HeadTooFar) {
			fate = ledger.Dead
		}
		switch fate {
		case ledger.Wait:
			j.held = rec // it has been handed out, and is not again
			return last, copies, octets, false
		case ledger.Copy:
			w, err := j.p.Begin(b)
			if err != nil {
				return last, copies, octets, false
			}
			copies = append(copies, w)
		case ledger.Dead:
		}
		last = rec.Seq
		octets += len(rec.Payload)
	}
	return last, copies, octets, true
}
