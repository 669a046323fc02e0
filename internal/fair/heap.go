package fair

// address is the clients behind one address that have items.
type address[C comparable, V any] struct {
	addr    string
	n       int // items
	clients clients[C, V]
}

// clients is a heap (container/heap): the client with the most items is first, and of several
// such clients the one with the oldest item.
type clients[C comparable, V any] []*share[C, V]

func (h clients[C, V]) Len() int { return len(h) }

func (h clients[C, V]) Less(i, j int) bool {
	a, b := &h[i].items, &h[j].items
	return a.Len() > b.Len() || a.Len() == b.Len() && a.First().nth < b.First().nth
}

func (h clients[C, V]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *clients[C, V]) Push(s any) {
	c := s.(*share[C, V])
	c.at = len(*h)
	*h = append(*h, c)
}

func (h *clients[C, V]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
