package dir

import (
	"container/list"
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Limits of what is remembered of the kernel's answers.
const (
	maxRights = 4096
	rightsFor = time.Second // for what leaves no trace in the ctime, as a change of a security policy
)

// rightsCache remembers what rights the kernel has given callers to files. An answer counts while mode, owner and
// ctime of the file are as they were then: the switch to a caller costs more than a LOOKUP. It is safe for concurrent
// use.
type rightsCache struct {
	mu    sync.Mutex
	m     map[fileKey]*list.Element // of *answer
	order list.List                 // most recent first
}

// answer is what the kernel has said about a file to a caller.
type answer struct {
	key        fileKey
	who        caller.Identity
	proof      proof
	until      time.Time
	asked, got uint32
}

// get returns the rights that were asked for and given, for a file with these attributes.
func (c *rightsCache) get(k fileKey, who *caller.Identity, a *nfs3.Attr) (asked, got uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.m[k]
	if e == nil {
		return 0, 0
	}
	x := e.Value.(*answer)
	if x.proof != (proof{mode: a.Mode, uid: a.UID, gid: a.GID, ctime: a.Ctime}) || !x.who.Equal(who) || time.Now().After(x.until) {
		return 0, 0
	}
	return x.asked, x.got
}

// put notes an answer about a file that had these attributes before it was given.
func (c *rightsCache) put(k fileKey, who *caller.Identity, a *nfs3.Attr, asked, got uint32) {
	if recent(a.Ctime) {
		return
	}
	p := proof{mode: a.Mode, uid: a.UID, gid: a.GID, ctime: a.Ctime}
	own := *who
	own.Groups = append([]uint32(nil), who.Groups...)
	x := &answer{k, own, p, time.Now().Add(rightsFor), asked, got}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = make(map[fileKey]*list.Element)
	}
	if e := c.m[k]; e != nil {
		e.Value = x
		c.order.MoveToFront(e)
		return
	}
	c.m[k] = c.order.PushFront(x)
	if e := c.order.Back(); len(c.m) > maxRights {
		delete(c.m, e.Value.(*answer).key)
		c.order.Remove(e)
	}
}

// known reports whether the kernel has answered about want to the caller, and what.
func (n *file) known(a *nfs3.Attr, want uint32) (got uint32, ok bool) {
	if n.who == nil || n.fs.sw == nil || n.who.UID == 0 {
		return 0, false // there is hardly a switch to be saved
	}
	asked, got := n.fs.rights.get(n.fs.fileKey(n.key, n.who, false), n.who, a)
	return got, asked&want == want
}

// learn notes what the kernel has answered.
func (n *file) learn(a *nfs3.Attr, asked, got uint32) {
	if n.who != nil && n.fs.sw != nil && n.who.UID != 0 {
		n.fs.rights.put(n.fs.fileKey(n.key, n.who, false), n.who, a, asked, got)
	}
}
