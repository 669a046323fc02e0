package dir

import (
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Limits of searches.
const (
	maxBuried  = 8192             // files known to be gone
	buriedFor  = 60 * time.Second // how long that is believed
	maxPending = 4096             // files that one walk looks for
	restFactor = 4                // the rest after a walk that found nothing, in times its length
	maxRest    = 10 * time.Second
	waitRounds = 4 // walks of others that a caller waits for
)

// searcher finds files in unknown places by walking the export. One walk at a time serves all
// callers who wait. After a walk that found nothing there is a rest, so that a client that makes
// up handles costs only a fraction of the machine.
type searcher struct {
	fs *FS

	mu      sync.Mutex
	wanted  map[key]bool
	buried  map[key]time.Time // files believed to be gone, until when
	running chan struct{}     // closed when the walk ends; nil if there is none
	restEnd time.Time
}

// find enters k in the table: ErrStale if it does not exist, ErrJukebox if that is not known
// yet.
func (s *searcher) find(k key) error {
	if s.fs.cfg.SearchLimit < 0 {
		return nfs3.ErrStale
	}
	for range waitRounds {
		s.mu.Lock()
		if until, ok := s.buried[k]; ok && time.Now().Before(until) {
			s.mu.Unlock()
			return nfs3.ErrStale
		}
		if !s.want(k) {
			s.mu.Unlock()
			return nfs3.ErrJukebox
		}
		if wait := s.running; wait != nil {
			s.mu.Unlock()
			<-wait
		} else if time.Now().Before(s.restEnd) {
			s.mu.Unlock()
			return nfs3.ErrJukebox
		} else {
			s.lead()
		}
		if n := s.fs.tab.get(k); n != nil && len(s.fs.tab.placesOf(n)) > 0 {
			return nil
		}
	}
	return nfs3.ErrJukebox
}

// want notes a key for the next walk.
func (s *searcher) want(k key) bool {
	if len(s.wanted) >= maxPending && !s.wanted[k] {
		return false
	}
	if s.wanted == nil {
		s.wanted = make(map[key]bool)
	}
	s.wanted[k] = true
	return true
}

// lead walks for all files that are wanted. The caller holds s.mu, which lead releases.
func (s *searcher) lead() {
	keys := s.wanted
	s.wanted = nil
	done := make(chan struct{})
	s.running = done
	s.mu.Unlock()

	begin := time.Now()
	n := len(keys)
	w := walk{fs: s.fs, keys: keys, left: s.fs.cfg.SearchLimit}
	w.run()

	s.mu.Lock()
	for k := range w.keys { // those not found
		s.buryLocked(k)
	}
	if len(w.keys) == n {
		s.restEnd = time.Now().Add(min(restFactor*time.Since(begin), maxRest))
	}
	s.running = nil
	s.mu.Unlock()
	close(done)
}

// bury notes that a file is gone, so that no walk looks for it.
func (s *searcher) bury(k key) {
	s.mu.Lock()
	s.buryLocked(k)
	s.mu.Unlock()
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
	delete(s.buried, k)
	s.mu.Unlock()
}

// walk is one search.
type walk struct {
	fs   *FS
	keys map[key]bool // still to be found
	left int          // names that may be looked at
	todo []*node      // directories still to be listed
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
		hit := w.keys[st.key]
		if !hit && st.attr.Type != nfs3.TypeDir {
			continue
		}
		c := w.fs.tab.enter(w.fs, place{n, name}, &st)
		delete(w.keys, st.key)
		if st.attr.Type == nfs3.TypeDir {
			w.todo = append(w.todo, c)
		}
	}
}
