// Package principals says which users of this machine the principals of Kerberos are.
package principals

import (
	"maps"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/gss"
)

// Users are the users of this machine. It is safe for concurrent use.
type Users struct {
	// Lookup finds a user by name, as the system does. If nil, os/user.
	Lookup func(name string) (server.User, bool)

	mu     sync.Mutex
	realms []string
	names  map[string]string // of users, by principal
	known  map[string]found
}

type found struct {
	user server.User
	ok   bool
	till time.Time
}

const (
	kept    = 10 * time.Minute // what the system has said; groups change rarely
	keptNot = time.Minute      // that it does not know somebody
	most    = 4096             // principals of which that is kept
)

// Set changes who is who: principals of the realms are the users of their names, and others those that names says.
func (u *Users) Set(realms []string, names map[string]string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.realms, u.names, u.known = slices.Clone(realms), maps.Clone(names), nil
}

// Of returns the user that a principal is. It asks the system at most once in a while, and may take as long as that.
func (u *Users) Of(p gss.Principal) (server.User, bool) {
	now := time.Now()
	u.mu.Lock()
	f, cached := u.known[p.Name]
	name, ok := u.nameOf(p.Name)
	u.mu.Unlock()
	switch {
	case cached && now.Before(f.till):
		return f.user, f.ok
	case !ok:
		return server.User{}, false
	}
	lookup := u.Lookup
	if lookup == nil {
		lookup = system
	}
	f = found{till: now.Add(keptNot)}
	if f.user, f.ok = lookup(name); f.ok {
		f.till = now.Add(kept)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if again, still := u.nameOf(p.Name); !still || again != name { // Set was called meanwhile
		return server.User{}, false
	}
	if u.known == nil || len(u.known) >= most {
		u.known = make(map[string]found)
	}
	u.known[p.Name] = f
	return f.user, f.ok
}

// nameOf returns the name of the user that a principal is, if it may be one. One with an instance (host/…, root/admin), or of
// another realm, is nobody's namesake: only who is named is believed. The caller holds u.mu.
func (u *Users) nameOf(principal string) (string, bool) {
	if name, ok := u.names[principal]; ok {
		return name, true
	}
	name, realm, ok := strings.Cut(principal, "@")
	if !ok || name == "" || strings.ContainsAny(principal, `/\`) || !slices.Contains(u.realms, realm) {
		return "", false
	}
	return name, true
}

// system asks the system.
func system(name string) (server.User, bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return server.User{}, false
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return server.User{}, false
	}
	out := server.User{UID: uint32(uid)}
	groups, err := u.GroupIds()
	if err != nil { // he gets his own
		groups = nil
	}
	for _, g := range append([]string{u.Gid}, groups...) {
		n, err := strconv.ParseUint(g, 10, 32)
		if err == nil && !slices.Contains(out.GIDs, uint32(n)) {
			out.GIDs = append(out.GIDs, uint32(n))
		}
	}
	return out, len(out.GIDs) > 0
}
