package rdmap

import (
	"errors"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Serve gives the reading role to the calling goroutine until the connection ends, and returns the
// reason for the end: a *ConnError with io.EOF means that the peer closed the connection. If an
// upcall hands the role off, or the watchdog takes it, another goroutine continues to read. In any
// case Serve returns at the end of the connection. Errors before that: ErrNoHandshake, ErrServing.
func (c *Conn) Serve() error {
	if err := c.startServing(); err != nil {
		return err
	}
	c.serve()
	<-c.done
	return c.Err()
}

func (c *Conn) startServing() error {
	if err := c.begun(); err != nil {
		return err
	}
	r := &c.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	do, ok := r.Serve()
	if !ok {
		return verbs.ErrServing
	}
	c.act(do)
	var w Waiter
	w.Reset()
	for !r.Take(drive.Server) {
		if c.ended() {
			return nil
		}
		r.enqueue(&w)
		r.mu.Unlock()
		<-w.ch
		r.mu.Lock()
		w.dequeue()
	}
	c.link.Forget()
	return nil
}

// serve reads until the connection fails or the role is lost.
func (c *Conn) serve() {
	for c.reader.State() == drive.Server {
		_, err := c.readBurst(true)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errLostRole):
			return
		case errors.Is(err, drive.ErrInterrupted) && !c.ended():
			c.reader.mu.Lock()
			c.clearInterrupt()
			c.reader.mu.Unlock()
			continue
		}
		c.freeReader()
		return
	}
}
