// Package users says which users of this machine callers are: the principals of Kerberos, the numbers of AUTH_SYS, and who has
// the other end of a TCP connection.
package users

import (
	"context"
	"errors"
	"maps"
	"os/exec"
	"os/user"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/gss"
)

// ErrUnknown means that the other end is on this machine, and it is not certain whose it is: its process has closed it, or
// the kernel does not say.
var ErrUnknown = errors.New("the owner of the connection is unknown")

// ErrMute, which comes with ErrUnknown, means that the kernel tells nothing of any socket, for want of tcp_diag.
var ErrMute = errors.New("the kernel does not say whose sockets are")

// Who is a user by name, or if that is "", by number.
type Who struct {
	Name string
	UID  uint32
}

// Users are the users of this machine. It is safe for concurrent use.
type Users struct {
	// Lookup finds a user. If nil, as the name service of the system does, LDAP and SSSD with it: by getent(1), or where
	// there is none, by os/user.
	Lookup func(Who) (server.User, bool)

	mu     sync.Mutex
	realms []string
	names  map[string]string // of users, by principal
	known  map[Who]*found
	asking chan struct{} // with an element for each question to the system
}

type found struct {
	done chan struct{} // closed when the others are valid
	user server.User
	ok   bool
	till time.Time
}

const (
	kept    = 10 * time.Minute // what the system has said; groups change rarely
	keptNot = time.Minute      // that it does not know somebody
	most    = 4096             // users of which that is kept
	askTime = 5 * time.Second  // for the system to answer, and before that, for others to get their answers
)

// atOnce is how many questions the system is asked at a time: who invents users has not more processes run.
const atOnce = 8

// Set changes who is who: principals of the realms are the users of their names, and others those that names says.
func (u *Users) Set(realms []string, names map[string]string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.realms, u.names, u.known = slices.Clone(realms), maps.Clone(names), nil
}

// Of returns the user that a principal is. It asks the system at most once in a while, and may take as long as that.
func (u *Users) Of(p gss.Principal) (server.User, bool) {
	name, ok := u.nameOf(p.Name)
	if !ok {
		return server.User{}, false
	}
	got, ok := u.find(Who{Name: name})
	if again, still := u.nameOf(p.Name); !still || again != name { // Set was called meanwhile
		return server.User{}, false
	}
	return got, ok
}

// ByID is Of for a number.
func (u *Users) ByID(uid uint32) (server.User, bool) { return u.find(Who{UID: uid}) }

// Groups returns the groups of a number, none if nobody has it. Unless wait, it asks nobody, and returns false if the answer is
// not known.
func (u *Users) Groups(uid uint32, wait bool) ([]uint32, bool) {
	if !wait && !u.knows(Who{UID: uid}) {
		return nil, false
	}
	got, _ := u.ByID(uid)
	return got.GIDs, true
}

// knows reports whether find returns at once.
func (u *Users) knows(w Who) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.known[w]
	return f != nil && time.Now().Before(f.till)
}

// find returns a user as he was found last, or has him looked up once for all who ask.
func (u *Users) find(w Who) (server.User, bool) {
	u.mu.Lock()
	f := u.known[w]
	if f != nil && (f.till.IsZero() || time.Now().Before(f.till)) {
		u.mu.Unlock()
		<-f.done
		return f.user, f.ok
	}
	if u.known == nil {
		u.known = make(map[Who]*found)
	}
	if u.asking == nil {
		u.asking = make(chan struct{}, atOnce)
	}
	for old := range u.known { // any: all can be asked for again
		if len(u.known) < most {
			break
		}
		delete(u.known, old)
	}
	f = &found{done: make(chan struct{})}
	u.known[w] = f
	u.mu.Unlock()

	asked := false
	select {
	case u.asking <- struct{}{}:
		lookup := u.Lookup
		if lookup == nil {
			lookup = system
		}
		f.user, f.ok = lookup(w)
		asked = true
		<-u.asking
	case <-time.After(askTime):
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !asked: // nothing is known of him
		if u.known[w] == f {
			delete(u.known, w)
		}
	case f.ok:
		f.till = time.Now().Add(kept)
	default:
		f.till = time.Now().Add(keptNot)
	}
	close(f.done)
	return f.user, f.ok
}

// nameOf returns the name of the user that a principal is, if it may be one. One with an instance (host/…, root/admin), or of
// another realm, is nobody's namesake: only who is named is believed.
func (u *Users) nameOf(principal string) (string, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if name, ok := u.names[principal]; ok {
		return name, true
	}
	name, realm, ok := strings.Cut(principal, "@")
	if !ok || name == "" || strings.ContainsAny(principal, `/\`) || !slices.Contains(u.realms, realm) {
		return "", false
	}
	return name, true
}

// Complete reports whether the system is asked for users that are not in its files: LDAP's, SSSD's. Without cgo, os/user reads
// /etc/passwd and /etc/group.
func Complete() bool {
	if _, err := exec.LookPath("getent"); err == nil || runtime.GOOS != "linux" {
		return true
	}
	b, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(b.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"})
}

// system asks the system.
func system(w Who) (server.User, bool) {
	key := w.Name
	if key == "" {
		key = strconv.FormatUint(uint64(w.UID), 10)
	} else if strings.Trim(key, "+- \t\n\v\f\r0123456789") == "" || key[0] == '-' {
		return server.User{}, false // getent takes it for a number, or an option; it is no name of a user
	}
	getent, err := exec.LookPath("getent")
	if err != nil {
		return plain(w, key)
	}
	ask := func(database, key string) string {
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, getent, database, key)
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		line, _, _ := strings.Cut(string(out), "\n")
		return line
	}
	f := strings.Split(ask("passwd", key), ":") // passwd(5)
	if len(f) < 4 {
		return server.User{}, false
	}
	groups := strings.Fields(strings.TrimPrefix(ask("initgroups", f[0]), f[0]))
	return numbers(f[2], append([]string{f[3]}, groups...))
}

// plain asks os/user.
func plain(w Who, key string) (server.User, bool) {
	lookup := user.Lookup
	if w.Name == "" {
		lookup = user.LookupId
	}
	u, err := lookup(key)
	if err != nil {
		return server.User{}, false
	}
	groups, _ := u.GroupIds() // the primary group at least
	return numbers(u.Uid, append([]string{u.Gid}, groups...))
}

// numbers is a user from the text of his numbers.
func numbers(uid string, gids []string) (out server.User, ok bool) {
	id, err := strconv.ParseUint(uid, 10, 32)
	if err != nil {
		return server.User{}, false
	}
	out.UID = uint32(id)
	for _, g := range gids {
		n, err := strconv.ParseUint(g, 10, 32)
		if err == nil && !slices.Contains(out.GIDs, uint32(n)) {
			out.GIDs = append(out.GIDs, uint32(n))
		}
	}
	return out, len(out.GIDs) > 0
}
