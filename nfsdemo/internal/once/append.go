package once

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/nfsdemo/internal/once/internal/ledger"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// begin enters a new call, which is to be executed. For a repeated call it returns the results of the
// first one, and waits for them if that still runs. The error is that of ctx, or of the journal.
func (j *Journal) begin(ctx context.Context, k ledger.Key) (e *ledger.Entry, results []byte, err error) {
	for joined := false; ; joined = true {
		j.mu.Lock()
		if err := j.Err(); err != nil {
			j.mu.Unlock()
			return nil, nil, err
		}
		e, first := j.led.Begin(k, j.now())
		if first || e.Done() {
			if !first {
				j.stats.Replayed++
			}
			j.mu.Unlock()
			if first {
				return e, nil, nil
			}
			return nil, e.Result(), nil
		}
		if !joined {
			j.stats.Joined++
		}
		ended := j.waiting[e]
		if ended == nil {
			ended = make(chan struct{})
			j.waiting[e] = ended
		}
		j.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// intend makes the intent of a call durable. After an error the call must not be executed.
func (j *Journal) intend(ctx context.Context, e *ledger.Entry, args, state []byte) error {
	if mutant.Is(mutant.IntentMissing) {
		return nil
	}
	if len(args) > maxArgs || len(state) > maxState {
		return errTooLarge
	}
	for {
		w, full, err := j.append(func(l *ledger.Ledger) []byte { return l.Intend(e, args, state, j.now()) })
		switch {
		case err != nil || full == nil && mutant.Is(mutant.IntentLate):
			return err
		case full == nil:
			return j.wait(w)
		}
		select {
		case <-full:
		case <-j.ctx.Done():
			return j.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errTooLarge: the call does not fit into a record.
var errTooLarge = errors.New("once: the call is larger than any that can be recorded")

// reply begins to record the results of a call. Records of later calls come after it in the log.
func (j *Journal) reply(e *ledger.Entry, results []byte) (*commitlog.Pending, error) {
	w, _, err := j.append(func(l *ledger.Ledger) []byte { return l.Reply(e, results, j.now()) })
	return w, err
}

// recorded waits until the reply is durable, so that it may be sent.
func (j *Journal) recorded(e *ledger.Entry, w *commitlog.Pending) error {
	if mutant.Is(mutant.ReplyFirst) {
		go func() {
			_ = j.wait(w)
			j.ended(e, func(l *ledger.Ledger) { l.Done(e, j.now()) })
		}()
		return nil
	}
	if err := j.wait(w); err != nil {
		return err
	}
	j.ended(e, func(l *ledger.Ledger) { l.Done(e, j.now()) })
	return nil
}

// void ends a call that was not executed, or changed nothing.
func (j *Journal) void(e *ledger.Entry) (*commitlog.Pending, error) {
	w, _, err := j.append(func(l *ledger.Ledger) []byte { return l.Void(e) })
	j.ended(e, func(*ledger.Ledger) {})
	return w, err
}

// drop ends a call that has no record, or that will never have another one.
func (j *Journal) drop(e *ledger.Entry) { j.ended(e, func(l *ledger.Ledger) { l.Drop(e) }) }

// ended ends a call with f, and wakes those who wait for that.
func (j *Journal) ended(e *ledger.Entry, f func(*ledger.Ledger)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(j.led)
	if ch := j.waiting[e]; ch != nil {
		delete(j.waiting, e)
		close(ch)
	}
	j.tell()
}

// append begins to append the record that f returns. If f returns none, there is no room, and full is
// closed when it is time to try again.
func (j *Journal) append(f func(*ledger.Ledger) []byte) (w *commitlog.Pending, full chan struct{}, err error) {
	j.order.RLock()
	defer j.order.RUnlock()
	j.mu.Lock()
	b := f(j.led)
	if !j.sweeping && j.led.Crowded() && j.Err() == nil {
		j.sweeping = true
		j.sweeps.Go(j.sweep)
	}
	if b == nil {
		full = j.change()
	} else {
		j.stats.Records++
	}
	j.mu.Unlock()
	if b == nil {
		return nil, full, nil
	}
	w, err = j.p.Begin(b)
	return w, nil, err
}

// wait returns when a record is durable.
func (j *Journal) wait(w *commitlog.Pending) error {
	r, err := w.Wait(j.ctx)
	if err == nil && r.Level != commitlog.Persistent {
		err = ErrNotPersistent
	}
	if err != nil {
		j.end(err)
		err = j.Err()
	}
	return err
}

// change returns a channel that is closed when a call has ended or room was released. The caller holds
// j.mu.
func (j *Journal) change() chan struct{} {
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return j.changed
}

// tell closes the channel that change has returned. The caller holds j.mu.
func (j *Journal) tell() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}
