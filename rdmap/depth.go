package rdmap

// LimitORD lowers the outbound request depth to n, at least 1, for all later requests: the upper
// layers may have agreed on fewer Reads at a time than the startup did (RFC 5666 Section 6.2). It
// never raises the depth. Call it after the startup.
func (c *Conn) LimitORD(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snd.ORD = min(c.snd.ORD, max(n, 1))
	c.state.ORD = c.snd.ORD
}
