package billy

import (
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// use is what a call does with a file: n, or what is under a name in the directory n. Until the call ends the file stays
// where it is, and so do the directories above it: paths are all that go-billy knows. So calls for several files, and
// those for one file that keeps its name, go side by side.
type use struct {
	n    *node
	name string // "": n itself
	move bool   // the call changes what is under the name, and no other changes names in n
	list bool   // the call reads the names in n, which osfs cannot do while they change
	bad  error  // nobody may have such a name

	at *node // set by begin
}

// begin waits until a call may use all these files together, so that nobody waits with a part of them. It returns
// ErrStale if an n is gone; else end follows, deferred directly.
func (f *FS) begin(uses ...*use) error {
	if !f.cfg.Concurrent {
		f.turn.Lock()
	}
	err := f.take(uses)
	if err != nil && !f.cfg.Concurrent {
		f.turn.Unlock()
	}
	return err
}

func (f *FS) take(uses []*use) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for _, u := range uses {
			if f.nodes[u.n.id] != u.n {
				return nfs3.ErrStale
			}
		}
		free := true
		for _, u := range uses {
			if u.at = u.n; u.name != "" { // anew in each round: others have moved and removed names
				u.at = f.node(u.n, u.name)
			}
			free = free && u.free()
		}
		if free {
			break
		}
		// Who moves a name would wait for ever if others began with it all the time. Those who move names pass each
		// other: two could keep each other back.
		for _, u := range uses {
			if u.move {
				u.at.wanted++
			}
		}
		f.freed.Wait()
		for _, u := range uses {
			if u.move {
				u.at.wanted--
			}
		}
	}
	for _, u := range uses {
		if u.list {
			u.n.lists++
		}
		if u.move {
			u.at.taken, u.n.changes = true, true
		} else {
			u.at.users++
		}
		for up := u.above(); up != nil; up = up.parent {
			up.users++
		}
	}
	return nil
}

// above is the first directory that has to stay where it is. It does so until the end, while what u moves does not.
func (u *use) above() *node {
	if u.name == "" {
		return u.n.parent
	}
	return u.n
}

// free reports whether u can begin. The caller holds FS.mu.
func (u *use) free() bool {
	if u.move && (u.at.users > 0 || u.n.changes || u.n.lists > 0) || u.list && u.n.changes {
		return false
	}
	for n := u.at; n != nil; n = n.parent {
		if n.taken || n.wanted > 0 && !u.move {
			return false
		}
	}
	return true
}

// end lets go of what begin has taken.
func (f *FS) end(uses ...*use) {
	if !f.cfg.Concurrent {
		shared.Check(recover()) // a file system that needs turns does not survive half of one
		defer f.turn.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range uses {
		if u.list {
			u.n.lists--
		}
		if u.move {
			u.at.taken, u.n.changes = false, false
		} else {
			u.at.users--
		}
		for up := u.above(); up != nil; up = up.parent {
			up.users--
		}
		if n := u.at; n.parent != nil && !n.there && n.users == 0 && !n.taken {
			f.forget(n)
		}
	}
	f.freed.Broadcast()
}
