package dir

import (
	"maps"
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Limits of searches.
const (
	maxBuried  = 8192             // files known to be gone
	buriedFor  = 60 * time.Second // how long that is believed
	maxHunters = 1024             // clients that wait, or rest
	maxPending = 1024             // files that a client may look for at a time
	restFactor = 4                // the rest of a client after a walk that found nothing for it, in times its length
	maxRest    = 10 * time.Second
)

// searcher finds files in unknown places by walking the export. One walk at a time serves all who wait. A client for
// which a walk has found nothing rests, and only that client: so one with handles of files that are gone costs a
// fraction of the machine, and others wait for the walk that runs and for as much of the next one as they need.
type searcher struct {
	fs *FS

	mu      shared.Mutex
	hunters map[string]*hunter
	buried  map[key]time.Time // files believed to be gone, until when
	running chan struct{}     // closed when the walk ends; nil if there is none
}

// hunter is a client that looks for files.
type hunter struct {
	next    *hunt // of the next walk; nil: none
	restEnd time.Time
}

// hunt is what a walk does for one client.
type hunt struct {
	keys map[key]bool  // still to be found
	many int           // that were wanted
	done chan struct{} // closed when all are found, or when the walk has ended
	over bool
}

// find enters k in the table, for a client: ErrStale if it does not exist, ErrJukebox if that is not known yet.
func (s *searcher) find(from net.Addr, k key) error {
	if s.fs.cfg.SearchLimit < 0 {
		return nfs3.ErrStale
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isBuried(k) {
		return nfs3.ErrStale
	}
	h := s.join(from, k)
	if h == nil {
		return nfs3.ErrJukebox
	}
	for !h.over {
		walk := s.running
		if walk == nil {
			s.lead()
			continue
		}
		s.mu.Without(func() {
			select {
			case <-h.done:
			case <-walk:
			}
		})
	}
	if h.keys[k] {
		return nfs3.ErrStale
	}
	return nil
}

// isBuried reports whether a file is known to be gone.
func (s *searcher) isBuried(k key) bool {
	until, ok := s.buried[k]
	return ok && time.Now().Before(until)
}

// join notes a key for the next walk. It returns nil if the client rests, or looks for too much already.
func (s *searcher) join(from net.Addr, k key) *hunt {
	p := peeraddr.Share(from)
	c := s.hunters[p]
	if c == nil {
		c = s.admit(p)
	}
	if c == nil || time.Now().Before(c.restEnd) {
		return nil
	}
	if c.next == nil {
		c.next = &hunt{keys: make(map[key]bool), done: make(chan struct{})}
	}
	h := c.next
	if h.many >= maxPending && !h.keys[k] {
		return nil
	}
	h.keys[k] = true
	h.many = len(h.keys)
	return h
}

// admit makes a hunter, unless too many wait or rest.
func (s *searcher) admit(p string) *hunter {
	if len(s.hunters) >= maxHunters {
		maps.DeleteFunc(s.hunters, func(_ string, c *hunter) bool { return c.next == nil && time.Now().After(c.restEnd) })
	}
	if len(s.hunters) >= maxHunters {
		return nil
	}
	if s.hunters == nil {
		s.hunters = make(map[string]*hunter)
	}
	c := &hunter{}
	s.hunters[p] = c
	return c
}

// lead walks for all files that are wanted. The caller holds s.mu, which lead gives up meanwhile.
func (s *searcher) lead() {
	w := walk{s: s, fs: s.fs, keys: make(map[key][]*hunt), left: s.fs.cfg.SearchLimit}
	hunts := make(map[*hunter]*hunt)
	for _, c := range s.hunters {
		if h := c.next; h != nil {
			hunts[c], c.next = h, nil
			for k := range h.keys {
				w.keys[k] = append(w.keys[k], h)
			}
		}
	}
	done := make(chan struct{})
	s.running = done
	begin := time.Now()
	s.mu.Without(w.run)
	for k := range w.keys { // those not found
		s.buryLocked(k)
	}
	for c, h := range hunts {
		if len(h.keys) == h.many {
			c.restEnd = time.Now().Add(min(restFactor*time.Since(begin), maxRest))
		}
		h.end()
	}
	s.running = nil
	close(done)
}

// found notes that a file is in the table now, and lets those go on who looked for nothing else.
func (s *searcher) found(k key, by []*hunt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range by {
		if delete(h.keys, k); len(h.keys) == 0 {
			h.end()
		}
	}
}

func (h *hunt) end() {
	if !h.over {
		h.over = true
		close(h.done)
	}
}

// bury notes that a file is gone, so that no walk looks for it.
func (s *searcher) bury(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buryLocked(k)
}

func (s *searcher) buryLocked(k key) {
	if s.buried == nil {
		s.buried = make(map[key]time.Time)
	}
	for old := range s.buried { // any one will do
		if len(s.buried) < maxBuried {
			break
		}
		delete(s.buried, old)
	}
	s.buried[k] = time.Now().Add(buriedFor)
}

// unbury notes that a file of this identity exists again.
func (s *searcher) unbury(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buried, k)
}

// walk is one search.
type walk struct {
	s    *searcher
	fs   *FS
	keys map[key][]*hunt // still to be found
	left int             // names that may be looked at
	todo []*node         // directories still to be listed
}

// run lists directories until all keys are found. The deepest comes first, so that its
// ancestors are still open.
func (w *walk) run() {
	inos := make(map[uint64]bool, len(w.keys))
	for k := range w.keys {
		inos[k.ino()] = true
	}
	w.todo = append(w.todo, w.fs.root)
	for len(w.todo) > 0 && len(w.keys) > 0 && w.left > 0 {
		n := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.list(n, inos)
	}
}

// list looks at the names of a directory, and skips what cannot be read. It calls stat only for
// directories and for files with a wanted inode number.
func (w *walk) list(n *node, inos map[uint64]bool) {
	g, err := n.openPlace(onlyLook)
	if err != nil {
		return
	}
	defer g.done()
	var names []string
	_, _, _ = w.fs.list(g, 0, func(e *rawEntry) bool {
		w.left--
		if e.name != "." && e.name != ".." && (e.maybeDir || inos[e.ino]) {
			names = append(names, e.name)
		}
		return w.left > 0
	})
	for _, name := range names {
		st, err := w.fs.statAt(g, name)
		if err != nil {
			continue
		}
		by := w.keys[st.key]
		if by == nil && st.attr.Type != nfs3.TypeDir {
			continue
		}
		c := w.fs.tab.enter(w.fs, place{n, name}, &st)
		if by != nil {
			delete(w.keys, st.key)
			w.s.found(st.key, by)
		}
		if st.attr.Type == nfs3.TypeDir {
			w.todo = append(w.todo, c)
		}
	}
}
