package nfsclient

// freeList is a bounded store of equal buffers. Its zero value does not work:
// see newFreeList. Safe for concurrent use.
type freeList struct {
	size int
	free chan []byte
}

// newFreeList keeps at most n buffers of size octets when they are not in use.
func newFreeList(size, n int) *freeList {
	return &freeList{size: size, free: make(chan []byte, n)}
}

// get returns a buffer of l.size octets with undefined content.
func (l *freeList) get() []byte {
	select {
	case b := <-l.free:
		return b
	default:
		return make([]byte, l.size)
	}
}

// put takes b back. It drops b if l has n buffers already.
func (l *freeList) put(b []byte) {
	select {
	case l.free <- b[:l.size]:
	default:
	}
}
