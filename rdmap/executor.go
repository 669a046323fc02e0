package rdmap

// Requests that can block, those that flush to persistence or hash, are executed by
// a goroutine of the stream, the executor; there is one while there is such a request at
// the head of the queue and all before it have been executed and written. It is the
// reader itself where that is possible, else a goroutine that is started.

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

// startExecutor starts the executor if there is work for one, with mu held. In Serve the
// reader does, see executeHere.
func (c *Conn) startExecutor() {
	if !c.reader && c.claimExecutor() {
		go c.exec.run()
	}
}

// claimExecutor makes the caller the executor, if there is work for one, with mu held.
func (c *Conn) claimExecutor() bool {
	if !c.snd.needExecutor() {
		return false
	}
	c.snd.executing = true
	if c.exec == nil {
		c.exec = new(execution)
		c.exec.run = func() { c.executor(flushPost) }
	}
	return true
}

// execution is what the executor of a connection needs, there being one at a time. It
// is kept, so that a request costs no allocation.
type execution struct {
	it  item
	run func()
}

func (c *Conn) executor(mode flushMode) {
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
		c.flushIfReady(mode)
		c.mu.Lock()
	}
	*it = item{}
	c.snd.executing = false
	c.mu.Unlock()
}

// maxHere is how much input, octets, a burst may have for the reader to be its executor.
// After more than that the next is likely to be on its way, and is placed meanwhile.
const maxHere = 128 << 10

// executesHere says, at the beginning of a burst and with mu held, whether the reader is
// to be its executor: in Serve, where nobody waits for the reader, and with a watchdog.
func (c *Conn) executesHere() bool {
	return c.serving && c.cfg.HandlerLimit > 0 && (c.st == nil || len(c.st.pending()) <= maxHere)
}

// executeHere makes the reader the executor, if there is work for one: waking a goroutine
// for it can cost half of what a disk does. As in an upcall it loses the role when it
// overstays, and is then no different from an executor that was started: a flush that
// hangs stops nobody. It reports whether the role is still there.
func (c *Conn) executeHere() (kept bool) {
	c.mu.Lock()
	c.reader = false
	work := c.claimExecutor()
	c.mu.Unlock()
	if !work {
		return true
	}
	st, s := c.st, c.upcalls.Load()+1
	c.takeovers.Add(-1) // it needs no place among MaxTakeovers: there is one at most
	c.upcalls.Store(s)
	c.watchUpcall()
	c.executor(flushReader)
	if c.upcalls.CompareAndSwap(s, s+1) {
		c.takeovers.Add(1)
		return true
	}
	if st != nil {
		st.leave()
	}
	return false
}
