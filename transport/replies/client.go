package replies

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Client makes calls whose replies are durable before its callers see them. It is a
// [rpc.Caller]. Until Close it has three goroutines, and one more with Config.Calls.
type Client struct {
	cfg   *Config
	log   *commitlog.Log
	rpc   *redial.Caller
	key   key
	epoch uint32
	found []*Record

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	turn   chan struct{} // one slot: held by the goroutine that offers
	kick   chan struct{} // one slot: the connection of the log has ended, or could not be made
	free   chan struct{} // one slot: there are records to be released

	released uint64 // used by release, and then by Close

	mu      sync.Mutex
	caller  rpc.Caller    // the last one that dial has made
	conn    *rdmap.Conn   // of the log; nil: none
	refusal error         // why conn is nil
	life    uint64        // identifies the server's state for this client
	changed chan struct{} // closed and replaced when life, err or kept change
	err     error         // of the log, final
	kept    kept
	held    int    // replies that wait for their records
	calls   *calls // nil: none
}

var _ rpc.Caller = (*Client)(nil)

// Open recovers the log and returns a Client, which opens connections when they are needed.
// Errors: those of [commitlog.Open], ErrForeign, and for cfg one that wraps rpc.ErrConfig.
func Open(cfg *Config) (*Client, error) {
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, turn: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		free: make(chan struct{}, 1), changed: make(chan struct{}), refusal: errUnconnected,
	}
	l, err := commitlog.Open(cfg.Memory)
	if err != nil {
		return nil, err
	}
	if c.found, err = recovered(l); err != nil {
		return nil, errors.Join(err, l.Close(context.Background()))
	}
	info := l.Info()
	c.log, c.epoch, c.kept = l, info.Epoch+1, newKept(info.HeadSeq-1, info.NextSeq-1)
	_, _ = rand.Read(c.key[:]) // never fails, by its documentation
	if err := c.openCalls(); err != nil {
		return nil, errors.Join(err, l.Close(context.Background()))
	}
	again := c.cfg.Redial
	again.Dial = c.dial
	if c.calls != nil {
		// The epoch of this log grows in every process, that of the replies only if the log was offered.
		c.epoch += c.calls.log.Info().Epoch
		again.Issue = c.issue
	}
	if c.rpc, err = redial.New(&again); err != nil {
		return nil, errors.Join(err, c.closeCalls(), l.Close(context.Background()))
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.calls != nil {
		c.wg.Go(c.readCalls)
	}
	c.wg.Go(c.read)
	c.wg.Go(c.reconnect)
	c.wg.Go(c.release)
	return c, nil
}

// Connect opens a connection for calls if there is none, and offers the log on it. Unlike a call
// it makes only one attempt; see [redial.Caller.Connect].
func (c *Client) Connect(ctx context.Context) error { return c.rpc.Connect(ctx) }

// Epoch returns the number of this life of the client (from Open to Close or a crash). With an XID it is
// the key of a reply. The next life has a larger number, if the log was offered in this one.
func (c *Client) Epoch() uint32 { return c.epoch }

// Recovered returns the replies that the log held when it was opened, in the order in which
// they were pushed. Their records are kept until Done.
func (c *Client) Recovered() []*Record { return c.found }

// read notes records, and releases the calls that wait for them. Next returns a record when the engine of
// this side has flushed it.
func (c *Client) read() {
	for {
		rec, err := c.log.Next(c.ctx)
		c.mu.Lock()
		if err != nil {
			c.fail(err)
			c.mu.Unlock()
			return
		}
		var xid uint32
		r, ok := parseRecord(rec.Seq, rec.Payload)
		if ok {
			xid = r.XID
		}
		c.kept.arrived(rec.Seq, xid)
		c.wake()
		c.mu.Unlock()
	}
}

// fail notes the end of the log. The caller holds c.mu.
func (c *Client) fail(err error) {
	if c.err == nil {
		c.err = err
		c.wake()
	}
}

// wake wakes the goroutines that wait, so that they look again. The caller holds c.mu.
func (c *Client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Call makes a call and returns the number of the durable record that holds its reply, or 0 if
// the reply has no record. Besides the errors of [redial.Caller.Do] it returns ErrNotKept,
// the error of ctx, and those of the log; with all of these the reply is valid.
func (c *Client) Call(ctx context.Context, call *rpc.Call, reply *rpc.Reply) (seq uint64, err error) {
	roomy := *call
	if roomy.MaxResults > 0 {
		roomy.MaxResults += nameLen
	}
	c.mu.Lock()
	began := c.kept.begin()
	c.mu.Unlock()
	var issued callKey
	ctx = c.withTicket(ctx, &issued)
	defer func() {
		c.mu.Lock()
		freed := c.kept.end(began, seq)
		freed = c.ended(issued) || freed
		c.mu.Unlock()
		c.freed(freed)
	}()
	if err := c.rpc.Do(ctx, &roomy, reply); err != nil {
		return 0, err
	}
	n, ok := nameIn(&reply.Header)
	if !ok {
		return 0, nil
	}
	if err := c.hold(ctx, n, reply.Header.XID); err != nil {
		return 0, err
	}
	return n.seq, nil
}

// hold waits until a record is in the log.
func (c *Client) hold(ctx context.Context, n name, xid uint32) error {
	c.mu.Lock()
	c.held++
	alone := c.conn == nil && c.caller != nil
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held--
	}()
	if alone {
		c.again()
	}
	for {
		c.mu.Lock()
		there, other := c.kept.has(n.seq, xid)
		changed, life, err := c.changed, c.life, c.err
		c.mu.Unlock()
		switch {
		case there:
			return nil
		case other || n.life != life:
			return ErrNotKept
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Do is Call followed by Done. It is for callers that, after a crash, only need the replies that
// they have not seen.
func (c *Client) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	seq, err := c.Call(ctx, call, reply)
	c.Done(seq)
	return err
}

// Done tells c that record seq is not needed anymore. Soon after all records before it are done too, its
// room is free and Open does not find it. Done(0) does nothing.
func (c *Client) Done(seq uint64) {
	if seq == 0 {
		return
	}
	c.mu.Lock()
	freed := c.kept.finish(seq)
	c.mu.Unlock()
	c.freed(freed)
}

// freed wakes release.
func (c *Client) freed(some bool) {
	if !some {
		return
	}
	select {
	case c.free <- struct{}{}:
	default:
	}
}

// release releases the room of records. Each time costs a flush, for which nobody waits; records that are
// done meanwhile share the next one.
func (c *Client) release() {
	for {
		select {
		case <-c.free:
		case <-c.ctx.Done():
			return
		}
		if err := c.giveUp(c.ctx); err != nil {
			c.mu.Lock()
			if c.ctx.Err() == nil {
				c.fail(err)
			}
			c.mu.Unlock()
			return
		}
	}
}

// giveUp makes durable which calls and replies are not needed anymore.
func (c *Client) giveUp(ctx context.Context) error {
	c.mu.Lock()
	low := c.kept.low
	c.mu.Unlock()
	err := c.note(ctx) // first: otherwise a crash in between would leave the call without its reply
	if err == nil && low > c.released {
		err, c.released = c.log.Release(low), low
	}
	return err
}

// Stats implements [rpc.Caller].
func (c *Client) Stats() rpc.Stats { return c.rpc.Stats() }

// Close ends the connections and releases the memory. Records for which Done was not called stay in it.
func (c *Client) Close() error {
	c.cancel()
	err := c.rpc.Close()
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		conn.Abort(nil)
	}
	c.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = c.giveUp(ctx) // if it fails, Open finds the calls and replies again
	return errors.Join(err, c.closeCalls(), c.log.Close(context.Background()))
}

// kept holds which records are in the log, which of them belong to somebody, and which are not needed
// anymore. It has one owner.
type kept struct {
	low   uint64            // all records up to it may be released
	last  uint64            // the last record that has arrived
	swept uint64            // all records up to it belong to somebody or are done
	xids  map[uint64]uint32 // of records between low and last that have arrived in this life
	owned map[uint64]bool   // records that a Call has returned
	done  map[uint64]bool   // records above low that are done
	calls map[uint64]int    // calls in flight, by the value of last when they began
}

func newKept(low, last uint64) kept {
	return kept{
		low: low, last: last, swept: last, xids: make(map[uint64]uint32),
		owned: make(map[uint64]bool), done: make(map[uint64]bool), calls: make(map[uint64]int),
	}
}

// arrived notes that a record has been flushed.
func (k *kept) arrived(seq uint64, xid uint32) { k.last, k.xids[seq] = seq, xid }

// has reports whether a record has arrived, or whether its number is that of another reply.
func (k *kept) has(seq uint64, xid uint32) (there, other bool) {
	got, ok := k.xids[seq]
	return ok && got == xid, ok && got != xid || !ok && seq <= k.last
}

// begin notes that a call begins, and returns the first argument for end.
func (k *kept) begin() uint64 {
	k.calls[k.last]++
	return k.last
}

// end notes that a call has ended, with record seq or 0. It reports whether room became free: a
// record that arrived before all calls in flight began, and that no call has returned, belongs to
// nobody, because its call was given up.
func (k *kept) end(began, seq uint64) bool {
	if k.calls[began]--; k.calls[began] == 0 {
		delete(k.calls, began)
	}
	if seq != 0 {
		k.owned[seq] = true
	}
	oldest := k.last
	for at := range k.calls {
		oldest = min(oldest, at)
	}
	for ; k.swept < oldest; k.swept++ {
		if at := k.swept + 1; at > k.low && !k.owned[at] {
			k.done[at] = true
		}
	}
	return k.advance()
}

// finish notes that a record is not needed anymore.
func (k *kept) finish(seq uint64) bool {
	if seq > k.low && seq <= k.last {
		k.done[seq] = true
	}
	return k.advance()
}

// advance moves low past the records that are done.
func (k *kept) advance() bool {
	from := k.low
	for k.done[k.low+1] {
		k.low++
		delete(k.done, k.low)
		delete(k.owned, k.low)
		delete(k.xids, k.low)
	}
	return k.low != from
}
