package ddp

// SetNext makes msn that of the next message of a queue. Nothing else leads to the wrap of MSNs: it
// is 2^32 messages away. With this every other test stands outside the package.
func (r *Receiver) SetNext(qn int, msn uint32) { r.next[qn] = msn }
