package decode

// history remembers the last octets of a stream, up to historyLen, with which retransmissions are compared.
type history struct {
	b     []byte // a ring once it is full
	start int    // index of the oldest octet
}

// historyLen is how many octets are remembered: a retransmission of something older is not compared.
const historyLen = 64 << 10

func (h *history) reset() { h.b, h.start = h.b[:0], 0 }

// add appends octets.
func (h *history) add(b []byte) {
	b = b[max(0, len(b)-historyLen):]
	n := min(len(b), historyLen-len(h.b))
	h.b = append(h.b, b[:n]...)
	for b = b[n:]; len(b) > 0; b = b[n:] {
		n = copy(h.b[h.start:], b)
		h.start = (h.start + n) % historyLen
	}
}

// differ returns how many octets of b differ from the remembered ones. b[0] is the octet that is back octets
// before the end.
func (h *history) differ(b []byte, back int) (n int) {
	if back > len(h.b) { // older than what is remembered
		b = b[min(len(b), back-len(h.b)):]
		back = len(h.b)
	}
	for i, c := range b {
		if h.b[(h.start+len(h.b)-back+i)%len(h.b)] != c {
			n++
		}
	}
	return n
}
