package replies

import "sync"

// Immediates receives Immediate Data that stand for replies: see Config.Immediates. The zero
// value is ready. It belongs to one Client.
type Immediates struct {
	mu sync.Mutex
	c  *Client
}

// Immediate implements transport.Config.Immediate.
func (i *Immediates) Immediate(n uint64, deliver func(reply []byte)) {
	i.mu.Lock()
	c := i.c
	i.mu.Unlock()
	if c == nil {
		return // nothing was offered
	}
	c.mu.Lock()
	reply := c.mail.named(n, deliver)
	c.mu.Unlock()
	if reply != nil {
		deliver(reply)
	}
}

// of says whose it is. Nil i does nothing.
func (i *Immediates) of(c *Client) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.c = c
}

// mostWaiting bounds the replies that were named and are not there yet: it is the most
// credits of a connection.
const mostWaiting = 4096

// mail brings replies that lie in records together with the Immediate Data that stand for
// them. It has one owner. The zero value is ready.
type mail struct {
	waiting map[uint64]func([]byte) // named, and not there yet
	replies map[uint64][]byte       // there, and not named yet, perhaps never
}

// arrived is told of a record, and returns who waits for it, if anybody. Low is up to where
// nobody needs one. Keep says that it may be named still.
func (m *mail) arrived(r *Record, low uint64, keep bool) (deliver func([]byte)) {
	if deliver = m.waiting[r.Seq]; deliver != nil || !keep {
		delete(m.waiting, r.Seq)
		return deliver
	}
	if m.replies == nil {
		m.replies = make(map[uint64][]byte)
	}
	for n := range m.replies { // a handful: named, they are gone
		if n <= low {
			delete(m.replies, n)
		}
	}
	m.replies[r.Seq] = r.Reply
	return nil
}

// named is told that Immediate Data stand for the reply in record n, and returns that if it
// is there.
func (m *mail) named(n uint64, deliver func([]byte)) []byte {
	if reply, ok := m.replies[n]; ok {
		delete(m.replies, n)
		return reply
	}
	if len(m.waiting) >= mostWaiting {
		return nil // no client has as many calls: its server makes them up
	}
	if m.waiting == nil {
		m.waiting = make(map[uint64]func([]byte))
	}
	m.waiting[n] = deliver
	return nil
}
