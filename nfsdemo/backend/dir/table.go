package dir

import (
	"container/list"
	"slices"

	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// node is a file of any kind that has been seen. The caches of descriptors are keyed by key, not
// by node, so two nodes with the same key do no harm.
type node struct {
	fs  *FS
	key key
	typ nfs3.FileType // never changes

	// guarded by table.mu
	places []place       // where it was seen, the latest first; none for the root
	kids   int           // places of other nodes that are in this directory
	elem   *list.Element // nil once out of the table
}

// place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// maxPlaces limits the names that are remembered of a file with many links.
const maxPlaces = 8

// table remembers at most max nodes, and beyond that the directories of nodes in the table.
type table struct {
	max int

	mu    shared.Mutex
	m     map[key]*node
	order list.List // of *node, most recent first
}

// get returns the node of k, or nil.
func (t *table) get(k key) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.m[k]
	if n != nil && n.elem != nil {
		t.order.MoveToFront(n.elem)
	}
	return n
}

// enter notes that a file was seen at a place, and returns its node.
func (t *table) enter(f *FS, p place, st *stat) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.m[st.key]
	if n == nil {
		n = f.newNode(st)
		t.m[st.key] = n
		n.elem = t.order.PushFront(n)
	} else if n.elem != nil {
		t.order.MoveToFront(n.elem)
	}
	if p.dir != nil && n != f.root {
		n.addPlace(p)
	}
	t.evict()
	return n
}

// addPlace puts p first in the places.
func (n *node) addPlace(p place) {
	if len(n.places) > 0 && n.places[0] == p {
		return
	}
	if i := slices.Index(n.places, p); i >= 0 {
		n.places = slices.Delete(n.places, i, i+1)
	} else {
		p.dir.kids++
	}
	n.places = slices.Insert(n.places, 0, p)
	if n.typ == nfs3.TypeDir || len(n.places) > maxPlaces {
		// A directory has one name.
		keep := 1
		if n.typ != nfs3.TypeDir {
			keep = maxPlaces
		}
		for _, old := range n.places[keep:] {
			old.dir.kids--
		}
		n.places = n.places[:keep]
	}
}

// newNode makes a node that is not in the table.
func (f *FS) newNode(st *stat) *node {
	return &node{fs: f, key: st.key, typ: st.attr.Type}
}

// move notes that a file has another name.
func (t *table) move(n *node, from, to place) {
	t.mu.With(func() {
		if t.m[n.key] == n && n.elem != nil {
			n.addPlace(to)
		}
	})
	t.leave(n, from)
}

// leave notes that a file is no longer at a place.
func (t *table) leave(n *node, p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(n.places, p); i >= 0 {
		n.places = slices.Delete(n.places, i, i+1)
		if n.elem != nil {
			p.dir.kids--
		}
	}
}

// remove forgets a file that is gone.
func (t *table) remove(k key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.m[k]; n != nil && n.elem != nil {
		t.forget(n)
	}
}

// forget takes n out of the table. It keeps its places for callers that still use it.
func (t *table) forget(n *node) {
	for _, p := range n.places {
		p.dir.kids--
	}
	delete(t.m, n.key)
	t.order.Remove(n.elem)
	n.elem = nil
}

// evict forgets the files that were not seen for the longest time. It looks at a few more than
// it needs, because directories in use stay.
func (t *table) evict() {
	const look = 16
	e := t.order.Back()
	for i := 0; i < look && e != nil && len(t.m) > t.max; i++ {
		n := e.Value.(*node)
		e = e.Prev()
		if n.kids == 0 {
			t.forget(n)
		} else {
			t.order.MoveToFront(n.elem)
		}
	}
}

// placesOf returns a copy of the places of n.
func (t *table) placesOf(n *node) []place {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(n.places)
}

// parentOf returns the directory in which n was last seen; for the root, the root itself.
func (t *table) parentOf(n *node) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(n.places) == 0 {
		return n
	}
	return n.places[0].dir
}
