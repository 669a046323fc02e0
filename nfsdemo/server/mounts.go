package server

import (
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
)

// maxMounts limits the list of DUMP; the oldest entries are dropped first. Clients that crash never
// unmount, and MNT needs no credential.
const maxMounts = 1024

// Mount says that a host has mounted a directory, as MNT and UMNT tell it: a client that crashes never unmounts.
type Mount struct {
	Host  string // as peeraddr.Host
	Dir   string
	Since time.Time // of the last MNT
}

// Mounts returns who has mounted what, the oldest first. It says nothing about permissions (RFC 1813 Section 5.2.2).
func (s *Server) Mounts() []Mount { return s.mounts.list() }

// ForgetMounts forgets all mounts of a host, and returns how many those were.
func (s *Server) ForgetMounts(host string) int {
	return s.mounts.remove(func(m *Mount) bool { return m.Host == host })
}

// mountTable is that list.
type mountTable struct {
	changed func() // after a change; nil: nobody needs to know

	mu  sync.Mutex
	all []Mount
}

// add notes a mount. One that it has becomes the newest.
func (t *mountTable) add(host, dir string) {
	t.mu.Lock()
	t.all = slices.DeleteFunc(t.all, func(m Mount) bool { return m.Host == host && m.Dir == dir })
	if len(t.all) >= maxMounts {
		t.all = slices.Delete(t.all, 0, len(t.all)-maxMounts+1)
	}
	t.all = append(t.all, Mount{host, dir, time.Now()})
	t.mu.Unlock()
	t.tell()
}

// remove forgets mounts, and returns how many.
func (t *mountTable) remove(which func(*Mount) bool) int {
	t.mu.Lock()
	before := len(t.all)
	t.all = slices.DeleteFunc(t.all, func(m Mount) bool { return which(&m) })
	n := before - len(t.all)
	t.mu.Unlock()
	if n > 0 {
		t.tell()
	}
	return n
}

func (t *mountTable) tell() {
	if t.changed != nil {
		t.changed()
	}
}

// list returns a copy.
func (t *mountTable) list() []Mount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}

// dump is the list of DUMP.
func (t *mountTable) dump() []mount3.Mount {
	list := t.list()
	out := make([]mount3.Mount, len(list))
	for i, m := range list {
		out[i] = mount3.Mount{Host: m.Host, Dir: m.Dir}
	}
	return out
}
