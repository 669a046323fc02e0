package transport

import "time"

// streamReadTimeout limits the wait for the rest of a record that has begun. Between two records a
// peer may be silent for as long as it likes.
const streamReadTimeout = 30 * time.Second

// patientReader is the input of a streamConn's records.
type patientReader struct {
	c      *streamConn
	inside bool // a record has begun
	armed  bool // a deadline is set
}

// Read implements io.Reader.
func (r *patientReader) Read(p []byte) (int, error) {
	switch {
	case r.inside:
		r.armed = true
		r.c.setReadDeadline(time.Now().Add(streamReadTimeout))
	case r.armed:
		r.armed = false
		r.c.setReadDeadline(time.Time{})
	}
	r.inside = true
	return r.c.input.Read(p)
}

// setReadDeadline sets the read deadline, unless drain has set one.
func (c *streamConn) setReadDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		_ = c.conn.SetReadDeadline(t) // fails only on a closed connection
	}
}
