package replies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/rpc"
)

// MinCalls is the size in octets of the smallest memory for Config.Calls.
const MinCalls = 64 << 10

// callShare: calls that need an answer may take one part in callShare of the log of calls, so that
// there is always room to copy them and release the rest.
const callShare = 8

// closeTime limits the time in which Close still writes.
const closeTime = 5 * time.Second

// Errors of the log of calls.
var (
	errCalls = fmt.Errorf("replies: Config.Calls: want a log in at least %d octets of memory", MinCalls)
	errNote  = errors.New("replies: call not sent, because no note of it can be made durable")
)

// calls is the log of the calls that were issued. This process appends to it.
type calls struct {
	log   *commitlog.Log
	prod  *commitlog.Producer
	half  uint64        // half of the ring in octets
	slots chan struct{} // one for each call that needs an answer according to the log
	found []*Issued     // calls without a reply that were found
	news  chan struct{} // one slot: last has changed; closed when it will not change anymore

	// Guarded by Client.mu.
	asked asked
	used  uint64 // about how many octets of the ring were used since the last release
	last  uint64 // the last record read
}

// openCalls recovers the log of calls.
func (c *Client) openCalls() error {
	if c.cfg.Calls == nil {
		return nil
	}
	l, err := commitlog.Open(c.cfg.Calls)
	if err != nil {
		return fmt.Errorf("calls: %w", err)
	}
	cs := &calls{
		log: l, prod: commitlog.NewProducer(nil), half: l.Info().Capacity / 2,
		asked: newAsked(), news: make(chan struct{}, 1),
	}
	if err := cs.recover(c.found); err != nil {
		return errors.Join(err, l.Close(context.Background()))
	}
	c.calls = cs
	return nil
}

// recover reads the log, and begins to append to it. answered are the replies that were found.
func (cs *calls) recover(answered []*Record) error {
	if cs.half < MinCalls/4 {
		return errCalls
	}
	if err := cs.readAll(); err != nil {
		return err
	}
	live := cs.asked.calls()
	cs.slots = make(chan struct{}, 2*cs.half/callShare/noteRoom(issuedLen))
	for range min(len(live), cap(cs.slots)) {
		cs.slots <- struct{}{}
	}
	for _, r := range answered {
		cs.asked.end(callKey{r.Epoch, r.XID}) // its reply stays in the log of replies until Done
	}
	cs.found = cs.asked.calls()
	return cs.log.Local(context.Background(), cs.prod)
}

func (cs *calls) readAll() error {
	for {
		rec, err := cs.log.TryNext()
		if rec == nil || err != nil {
			return err
		}
		if !cs.asked.recovered(rec.Payload) {
			return fmt.Errorf("%w: record %d of the calls", ErrForeign, rec.Seq)
		}
		cs.read(rec)
	}
}

func (cs *calls) read(rec *commitlog.Record) {
	cs.last = rec.Seq
	cs.used += noteRoom(len(rec.Payload))
}

// readCalls reads the log of calls until it ends.
func (c *Client) readCalls() {
	defer close(c.calls.news)
	for {
		rec, err := c.calls.log.Next(c.ctx)
		c.mu.Lock()
		if err == nil {
			c.calls.read(rec)
			c.mu.Unlock()
			select {
			case c.calls.news <- struct{}{}:
			default:
			}
			continue
		}
		over := c.ctx.Err() != nil
		if !over {
			c.fail(err)
		}
		c.mu.Unlock()
		if !over {
			c.calls.prod.Close() // so that nobody waits for it in vain
		}
		return
	}
}

// issue is redial.Config.Issue: it makes a note of the call durable.
func (c *Client) issue(ctx context.Context, xid uint32, call *rpc.Call) error {
	t, _ := ctx.Value(ticketKey{}).(*callKey)
	if t == nil || c.cfg.Choose != nil && !c.cfg.Choose(call.Prog, call.Vers, call.Proc) {
		return nil
	}
	select {
	case c.calls.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: too many calls need an answer (call Settle): %w", errNote, ctx.Err())
	}
	i := &Issued{c.epoch, xid, call.Prog, call.Vers, call.Proc, digestOf(call)}
	c.mu.Lock()
	c.calls.asked.begin(i) // before the log has it, so that compact knows it
	c.mu.Unlock()
	*t = i.key()
	if _, err := c.calls.prod.Append(ctx, i.append(nil)); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("%w: %w", errNote, errors.Join(c.err, err))
	}
	return nil
}

// ticketKey is the context key of the *callKey with which issue tells Call what it has noted.
type ticketKey struct{}

// withTicket returns a context with which issue sets k.
func (c *Client) withTicket(ctx context.Context, k *callKey) context.Context {
	if c.calls == nil {
		return ctx
	}
	return context.WithValue(ctx, ticketKey{}, k)
}

// ended notes that a call needs no answer anymore. The caller holds c.mu.
func (c *Client) ended(k callKey) bool {
	return c.calls != nil && c.calls.asked.end(k)
}

// note records which calls are over. After it has returned, a call that was over when note was
// called does not come back as unanswered after a crash.
func (c *Client) note(ctx context.Context) error {
	cs := c.calls
	if cs == nil {
		return nil
	}
	c.mu.Lock()
	over := cs.asked.take()
	c.mu.Unlock()
	if err := c.write(ctx, over); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		cs.asked.over = append(cs.asked.over, over...)
		return err
	}
	for range over {
		<-cs.slots
	}
	return nil
}

// write appends a record of the calls that are over.
func (c *Client) write(ctx context.Context, over []callKey) error {
	const some = 64
	for from := over; len(from) > 0; from = from[min(len(from), some):] {
		r, err := c.calls.prod.Append(ctx, appendOver(nil, from[:min(len(from), some)]))
		if err == nil {
			err = c.seen(ctx, r.Seq)
		}
		if err != nil {
			return err
		}
	}
	return c.compact(ctx)
}

// seen waits until readCalls has read record seq, or has ended. So used lags behind the log by no
// more than what the slots allow to be noted meanwhile. Otherwise the log could be full before
// compact knows that half of it is used.
func (c *Client) seen(ctx context.Context, seq uint64) error {
	for {
		c.mu.Lock()
		last := c.calls.last
		c.mu.Unlock()
		if last >= seq {
			return nil
		}
		select {
		case _, more := <-c.calls.news:
			if !more {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// compact copies the records that are still needed to the end of the log, if half of the log is
// used, and releases the records before.
func (c *Client) compact(ctx context.Context) error {
	cs := c.calls
	c.mu.Lock()
	if cs.used < cs.half {
		c.mu.Unlock()
		return nil
	}
	live, upTo := cs.asked.calls(), cs.last
	cs.used = 0
	c.mu.Unlock()
	pending := make([]*commitlog.Pending, len(live))
	for n, i := range live {
		var err error
		if pending[n], err = cs.prod.Begin(i.append(nil)); err != nil {
			return err
		}
	}
	for _, e := range pending {
		if _, err := e.Wait(ctx); err != nil {
			return err
		}
	}
	return cs.log.Release(upTo)
}

// closeCalls closes the log of calls. No more calls may be issued.
func (c *Client) closeCalls() error {
	if c.calls == nil {
		return nil
	}
	c.calls.prod.Close()
	return c.calls.log.Close(context.Background())
}

// Unanswered returns, in order, the calls of earlier processes that were issued (and perhaps sent
// and executed) and whose replies are not in the log. They are kept until Settle, and take up room
// for new ones. If the server does not push replies to all calls that Config.Choose names, a call
// in this list has only not ended. It returns nil without Config.Calls.
func (c *Client) Unanswered() []*Issued {
	if c.calls == nil {
		return nil
	}
	return c.calls.found
}

// Settle tells c that an unanswered call of an earlier process is not needed anymore. Soon after, Open no
// longer finds it.
func (c *Client) Settle(i *Issued) {
	c.mu.Lock()
	news := c.ended(i.key())
	c.mu.Unlock()
	c.freed(news)
}

// asked holds the calls that were issued and still need an answer. It has one owner.
type asked struct {
	live map[callKey]*Issued
	over []callKey // no longer live, which the log does not say yet
}

func newAsked() asked { return asked{live: make(map[callKey]*Issued)} }

// begin adds a call before it is noted in the log.
func (a *asked) begin(i *Issued) { a.live[i.key()] = i }

// end notes that a call needs no answer anymore. It reports whether that is news.
func (a *asked) end(k callKey) bool {
	if a.live[k] == nil {
		return false
	}
	delete(a.live, k)
	a.over = append(a.over, k)
	return true
}

// take returns the calls whose end must be written to the log.
func (a *asked) take() []callKey {
	over := a.over
	a.over = nil
	return over
}

// recovered takes a record that was in the log when it was opened; the records come in order. It
// reports whether the log is a log of calls.
func (a *asked) recovered(payload []byte) bool {
	i, over, ok := parseNote(payload)
	if i != nil {
		a.begin(i)
	}
	for _, k := range over {
		delete(a.live, k)
	}
	return ok
}

// calls returns the live calls, those of earlier processes first.
func (a *asked) calls() []*Issued {
	all := make([]*Issued, 0, len(a.live))
	for _, i := range a.live {
		all = append(all, i)
	}
	slices.SortFunc(all, func(i, j *Issued) int {
		if i.Epoch != j.Epoch {
			return cmp.Compare(i.Epoch, j.Epoch)
		}
		return int(int32(i.XID - j.XID)) // XIDs go up by one and wrap
	})
	return all
}

// noteRoom returns about how many octets of a ring a record of n octets takes, not counting a filler.
func noteRoom(n int) uint64 { return (uint64(n) + 28 + 63) &^ 63 }
