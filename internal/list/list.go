// Package list has a list whose nodes are fields of their elements, so that an element enters and leaves, from anywhere,
// without allocating, and may be in as many lists as it has nodes.
package list

import "iter"

// List is a list of elements. The zero value is empty. It is not safe for concurrent use.
type List[E any] struct {
	first, last *Node[E]
	n           int
}

// Node is an element's place in one list at a time. The zero value is in none. It must not be copied or overwritten
// while it is in a list.
type Node[E any] struct {
	of         *E
	prev, next *Node[E]
	in         *List[E] // nil: none. Whoever links or unlinks looks here, so that no misuse can damage a list
}

// Len returns the number of elements.
func (l *List[E]) Len() int { return l.n }

// First returns the first element, nil if there is none.
func (l *List[E]) First() *E {
	if l.first == nil {
		return nil
	}
	return l.first.of
}

// Push makes e, of which n is a node, the last element. If n is in a list, it leaves that first.
func (l *List[E]) Push(n *Node[E], e *E) {
	n.Leave()
	n.of, n.in, n.prev = e, l, l.last
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.n++
}

// Pop takes the first element out, and returns nil if there is none.
func (l *List[E]) Pop() *E {
	e := l.First()
	if e != nil {
		l.first.Leave()
	}
	return e
}

// All yields the elements in order. One that was yielded may leave meanwhile, or at once; the others stay.
func (l *List[E]) All() iter.Seq[*E] {
	return func(yield func(*E) bool) {
		for n := l.first; n != nil; {
			e, next := n.of, n.next
			if !yield(e) {
				return
			}
			n = next
		}
	}
}

// Queued reports whether n is in a list.
func (n *Node[E]) Queued() bool { return n.in != nil }

// In reports whether n is in l.
func (n *Node[E]) In(l *List[E]) bool { return n.in == l }

// Leave takes n out of the list in which it is, if any.
func (n *Node[E]) Leave() {
	l := n.in
	if l == nil {
		return
	}
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	l.n--
	*n = Node[E]{}
}
