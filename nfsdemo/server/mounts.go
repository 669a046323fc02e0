package server

import (
	"slices"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
)

// maxMounts limits the list of DUMP; the oldest entries are dropped first. Clients that crash never
// unmount, and MNT needs no credential.
const maxMounts = 1024

// mountTable remembers who mounted what. It says nothing about permissions
// (RFC 1813 Section 5.2.2).
type mountTable struct {
	mu  sync.Mutex
	all []mount3.Mount
}

// add notes a mount.
func (t *mountTable) add(m mount3.Mount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.all, m) {
		return
	}
	if len(t.all) == maxMounts {
		t.all = slices.Delete(t.all, 0, 1)
	}
	t.all = append(t.all, m)
}

// remove forgets a mount. An unknown one is no error.
func (t *mountTable) remove(m mount3.Mount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(o mount3.Mount) bool { return o == m })
}

// removeHost forgets all mounts of a host.
func (t *mountTable) removeHost(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(o mount3.Mount) bool { return o.Host == host })
}

// list returns a copy.
func (t *mountTable) list() []mount3.Mount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}
