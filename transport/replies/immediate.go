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
		return // no log was offered
	}
	c.mu.Lock()
	reply := c.mail.named(n, deliver)
	c.mu.Unlock()
	if reply != nil {
		deliver(reply)
	}
}

// of sets the client to which i belongs. A nil i does nothing.
func (i *Immediates) of(c *Client) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.c = c
}

// mostWaiting limits the replies that were named but have not arrived yet: the most credits of a
// connection.
const mostWaiting = 4096

// mail matches replies in records with the Immediate Data that stand for them. It has one owner. The zero
// value is ready.
type mail struct {
	waiting map[uint64]func([]byte) // named, but not arrived yet
	replies map[uint64][]byte       // arrived, but not named yet, perhaps never
}

// arrived takes a record that has arrived, and returns the function that waits for it, or nil.
// Nobody needs records up to low. keep says that r may still be named.
func (m *mail) arrived(r *Record, low uint64, keep bool) (deliver func([]byte)) {
	if deliver = m.waiting[r.Seq]; deliver != nil || !keep {
		delete(m.waiting, r.Seq)
		return deliver
	}
	if m.replies == nil {
		m.replies = make(map[uint64][]byte)
	}
	for n := range m.replies { // only a few: named ones are removed
		if n <= low {
			delete(m.replies, n)
		}
	}
	m.replies[r.Seq] = r.Reply
	return nil
}

// named takes Immediate Data that stand for the reply in record n, and returns that reply if it has
// arrived.
func (m *mail) named(n uint64, deliver func([]byte)) []byte {
	if reply, ok := m.replies[n]; ok {
		delete(m.replies, n)
		return reply
	}
	if len(m.waiting) >= mostWaiting {
		return nil // no client has so many calls: the server has made them up
	}
	if m.waiting == nil {
		m.waiting = make(map[uint64]func([]byte))
	}
	m.waiting[n] = deliver
	return nil
}
