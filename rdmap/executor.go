package rdmap

// Requests that can block, those that flush to persistence or hash, are executed by
// a goroutine of the stream; there is one while there is such a request at the head
// of the queue and all before it have been executed and written.

// inlineVerify is how many octets are hashed without an executor.
const inlineVerify = 4096

// blocks reports whether a request may take long.
func (r *request) blocks() bool {
	switch r.op {
	case OpFlushRequest:
		return FlushFlags(r.body[targetLen+3])&FlushPersistent != 0
	case OpVerifyRequest:
		var g target
		g.parse(r.body[:])
		return g.n > inlineVerify
	default:
		return false
	}
}

// stores reports whether the request changes memory.
func (r *request) stores() bool { return r.op == OpAtomicRequest || r.op == OpAtomicWriteRequest }

// needExecutor reports whether the head of the requests waits for an executor.
func (s *sender) needExecutor() bool {
	return s.rq.len() > 0 && s.handed == 0 && !s.executing && !s.aborted && !s.rq.at(0).answerable()
}

// answerable reports whether a response may be handed to the flusher.
func (it *item) answerable() bool { return it.executed || !it.req.blocks() }

// startExecutor starts the executor if there is work for one, with mu held.
func (c *Conn) startExecutor() {
	if c.snd.needExecutor() {
		c.snd.executing = true
		if c.exec == nil {
			c.exec = new(execution)
			c.exec.run = c.executor
		}
		go c.exec.run()
	}
}

// execution is what the executor of a connection needs, there being one at a time. It
// is kept, so that a request costs no allocation.
type execution struct {
	it  item
	run func()
}

func (c *Conn) executor() {
	it := &c.exec.it
	c.mu.Lock()
	for c.snd.executing = false; c.snd.needExecutor(); c.snd.executing = false {
		c.snd.executing = true
		*it = *c.snd.rq.at(0)
		c.mu.Unlock()
		if err := it.execute(c.table); err != nil {
			c.fail(err)
		}
		c.mu.Lock()
		if c.snd.aborted {
			break
		}
		it.executed = true
		*c.snd.rq.at(0) = *it
		c.mu.Unlock()
		c.flushIfReady(flushPost)
		c.mu.Lock()
	}
	*it = item{}
	c.snd.executing = false
	c.mu.Unlock()
}
