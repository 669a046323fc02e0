package replies

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// client is a client whose log takes replies.
type client struct {
	p     *Pusher
	key   key
	host  string
	epoch uint32
	life  uint64 // random

	// Guarded by Pusher.mu.
	uses  int         // connections
	conn  *rdmap.Conn // the last one for appends, perhaps not live yet
	token rendezvous.Token
	grace *time.Timer

	prod *commitlog.Producer

	mu      sync.Mutex
	live    *rdmap.Conn // the connection for appends; nil: none
	limit   int         // of a record
	next    uint64      // number of the next record; 0 before the first connection
	queued  int         // octets in flight
	full    time.Time   // since when there has been no room; zero: there is room
	pending []sentRecord
	waiting bool // a goroutine waits for pending
	closed  bool
}

// sentRecord is a record in flight.
type sentRecord struct {
	e *commitlog.Pending
	n int
}

func newClient(p *Pusher, a *offerArgs, host string) *client {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return &client{
		p: p, key: a.Client, host: host, epoch: a.Epoch, life: binary.BigEndian.Uint64(b[:]),
		prod: commitlog.NewProducer(nil),
	}
}

// stopGrace stops the timer that would forget c. The caller holds Pusher.mu.
func (c *client) stopGrace() {
	if c.grace != nil {
		c.grace.Stop()
	}
}

func (c *client) isLive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live != nil
}

// patience is how long there must be no room in a log before replies are sent without records.
// lookAgain is how often those that wait for room look.
const (
	patience  = time.Second
	lookAgain = time.Millisecond
)

// push pushes a reply, names its record in it and returns the record's number, or 0 if there is no
// room. It waits for room as long as some is likely to come, because the client may get replies
// faster than it can make durable which ones it is Done with.
func (c *client) push(ctx context.Context, req *rpc.Request, resp *rpc.Response, digest [sha256.Size]byte) {
	for c.tryPush(req, resp, digest) {
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return
		}
	}
}

// tryPush reports whether room for the record is likely to come, and none was pushed until then.
func (c *client) tryPush(req *rpc.Request, resp *rpc.Response, digest [sha256.Size]byte) (wait bool) {
	if resp.Verf.Flavor != xdr.AuthNone || len(resp.Verf.Body) > 0 {
		return false // the handler has set its own verifier
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		return false
	}
	resp.Verf = name{c.life, c.next}.verf()
	n := recordSize(resp)
	if n > c.limit || c.queued+n > c.p.maxQueued {
		resp.Verf = xdr.Auth{}
		return false
	}
	record := appendRecord(make([]byte, 0, n), c.epoch, digest, req, resp)
	e, err := c.prod.TryBegin(record) // the receiver of this reply may be the one that must be Done with others
	if err != nil {
		resp.Verf = xdr.Auth{}
		return errors.Is(err, commitlog.ErrFull) && c.hopes()
	}
	c.full = time.Time{}
	c.next++
	c.queued += n
	c.pending = append(c.pending, sentRecord{e, n})
	if !c.waiting {
		c.waiting = true
		go c.wait()
	}
	return false
}

// hopes is called when there is no room, and reports whether some is likely to come. The caller
// holds c.mu.
func (c *client) hopes() bool {
	if c.full.IsZero() {
		c.full = time.Now()
	}
	return time.Since(c.full) < patience
}

// wait counts records that have arrived.
func (c *client) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) > 0 {
		r := c.pending[0]
		c.mu.Unlock()
		_, _ = r.e.Wait(context.Background()) // ends with close
		c.mu.Lock()
		c.pending = c.pending[1:]
		c.queued -= r.n
	}
	c.waiting = false
}

// attach begins to append over conn. It returns false if that is impossible, because the log does not
// continue where the records named so far end.
func (c *client) attach(conn *rdmap.Conn, a *commitlog.Answer) bool {
	if c.prod.Open(conn, a) != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == 0 {
		c.next = a.NextSeq
	}
	c.limit = commitlog.PayloadLimit(a.Capacity)
	c.live = conn
	return !c.closed
}

// detach is called when conn has ended.
func (c *client) detach(conn *rdmap.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == conn {
		c.live = nil
	}
}

func (c *client) close() {
	c.mu.Lock()
	c.closed, c.live = true, nil
	c.mu.Unlock()
	c.prod.Close()
}
