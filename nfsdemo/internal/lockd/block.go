package lockd

import (
	"context"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"go.uber.org/zap"
)

// locks are those of a [backend.Locker], or the Locker of this process, which end with it.
type locks interface {
	TestLock(ctx context.Context, handle []byte, l *backend.Lock) error
	SetLock(ctx context.Context, handle []byte, l *backend.Lock, wait bool) error
	Unlock(ctx context.Context, handle []byte, l *backend.Lock) error
}

// target is a file, for who keeps its locks.
type target struct {
	locks  locks
	handle string
}

// blockKey tells the blocks of a client apart.
type blockKey struct {
	target
	lock backend.Lock
}

// block is a lock that a client waits for, or was not yet told that it has.
type block struct {
	key     blockKey
	args    TestArgs // of GRANTED
	vers    uint32
	network string // of the client's call
	async   bool   // the client uses the _MSG procedures
	began   time.Time
	granted bool // the lock is held; under the client's mutex
	ctx     context.Context
	end     context.CancelFunc
	done    chan struct{}
}

// early is how much earlier a client must have been told BLOCKED than GRANTED: it may not expect the
// latter before it has seen the former.
const early = 20 * time.Millisecond

// await waits for the lock of b, and tells the client.
func (s *Server) await(c *client, b *block) {
	defer s.dropBlock(c.share())
	defer close(b.done)
	defer b.end()
	err := b.key.locks.SetLock(b.ctx, []byte(b.key.handle), &b.key.lock, true)
	c.mu.With(func() {
		switch mine := c.blocks[b.key] == b; {
		case err != nil:
			if mine {
				delete(c.blocks, b.key) // the client finds out when it asks again
			}
		case !mine: // it was cancelled at this moment
			s.giveBack(b)
		default:
			b.granted = true
		}
	})
	if !b.granted {
		return
	}
	heard := s.tell(c, b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks[b.key] != b {
		return // the client has asked again, or has cancelled: then it was given back there
	}
	delete(c.blocks, b.key)
	if !heard {
		s.giveBack(b)
		s.cfg.Logger.Info("lockd: a client did not take a lock that it had waited for", zap.String("client", c.name), zap.String("address", c.addr))
	}
}

// giveBack unlocks what b has got.
func (s *Server) giveBack(b *block) {
	ctx, cancel := s.settling()
	defer cancel()
	if err := b.key.locks.Unlock(ctx, []byte(b.key.handle), &b.key.lock); err != nil {
		s.cfg.Logger.Warn("lockd: a lock that nobody wants is still held", zap.Error(err))
	}
}

// cancel ends the blocks of an owner for exactly a range, in one mode or, with both, in either. The client must not
// be locked. It reports whether there were any.
func (s *Server) cancel(c *client, key blockKey, both bool) (any bool) {
	modes := []bool{key.lock.Exclusive}
	if both {
		modes = []bool{false, true}
	}
	for _, exclusive := range modes {
		key.lock.Exclusive = exclusive
		if b := s.take(c, key); b != nil {
			any = true
			<-b.done // so that what it might still get does not mix with what the client does next
		}
	}
	return any
}

// take ends the block of key, if there is one, and returns it.
func (s *Server) take(c *client, key blockKey) *block {
	c.mu.Lock()
	defer c.mu.Unlock() // the backend may panic
	b := c.blocks[key]
	if b != nil {
		delete(c.blocks, key)
		b.end()
		if b.granted {
			s.giveBack(b)
		}
	}
	return b
}

// tellTime limits how long a client is called.
const tellTime = 90 * time.Second

// tell calls GRANTED until the client has answered. It reports whether the client has the lock, or may have it: when
// a call was sent and the answer is lost, giving the lock to another could make two of them believe that they hold it.
func (s *Server) tell(c *client, b *block) bool {
	ctx, cancel := context.WithTimeout(b.ctx, tellTime)
	defer cancel()
	wait := early - time.Since(b.began)
	perhaps := false
	for try := range 5 {
		select {
		case <-ctx.Done():
			return perhaps
		case <-time.After(max(wait, 0)):
		}
		wait = s.cfg.Retry << try
		leave, ok := s.lane(ctx, c.share(), true)
		if !ok {
			return perhaps
		}
		st, sent, err := s.granted(c, b)
		leave()
		s.heard(c.share(), err)
		switch {
		case err != nil:
			perhaps = perhaps || sent
		case st == Granted:
			return true
		case st != DeniedGrace:
			return false
		}
	}
	return perhaps
}
