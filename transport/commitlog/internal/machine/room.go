package machine

// Published sets the durable head, which the consumer has published.
func (p *Producer) Published(head uint64) {
	if p.open && head > p.head && head <= p.tail && head%Align == 0 {
		p.head = head
	}
}

// Blocked reports whether appends wait for room, not for answers.
func (p *Producer) Blocked() bool {
	return p.open && len(p.queue) > 0 && !p.fits(p.tail, RecordSize(len(p.queue[0].Payload)))
}

// TryAdd is Add for a payload that must not wait for room: if it and the whole queue do not fit in
// the ring now, the error is ErrFull.
func (p *Producer) TryAdd(e *Append) error {
	if p.attached && len(e.Payload) <= PayloadLimit(p.capacity) && !p.room(len(e.Payload)) {
		return ErrFull
	}
	return p.Add(e)
}

// room reports whether a payload of n octets fits after the whole queue.
func (p *Producer) room(n int) bool {
	at := p.tail
	for _, e := range p.queue {
		at = p.behind(at, RecordSize(len(e.Payload)))
	}
	return p.fits(at, RecordSize(n))
}

// fits reports whether there is room for a record of size octets after position at.
func (p *Producer) fits(at, size uint64) bool {
	return p.behind(at, size)-p.head <= p.capacity
}

// behind returns where a record of size octets ends if it is put after position at, with a filler
// before it if it would cross the end of the ring.
func (p *Producer) behind(at, size uint64) uint64 {
	if end := ToEnd(at, p.capacity); end < size {
		at += end
	}
	return at + size
}
