package cli

import (
	"errors"
	"log/slog"
	"net"
	"os/user"
	"runtime"
	"strconv"
	"sync"
	"weak"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/internal/sockowner"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// owners knows the users at the other end of connections from this machine: there, nobody has to be believed.
type owners struct {
	m    sync.Map     // of weak.Pointer[net.TCPAddr] to *owner
	log  *slog.Logger // nil: nothing is logged
	told sync.Once
}

// owner is looked up when the first call comes: that may ask a directory service for groups.
type owner struct {
	once          sync.Once
	local, remote net.TCPAddr
	user          server.User
}

// listen notes the connections that l accepts. A connection keeps the address that RemoteAddr returns, so that
// its pointer tells connections apart.
func (o *owners) listen(l net.Listener) net.Listener { return &ownedListener{l, o} }

type ownedListener struct {
	net.Listener
	owners *owners
}

// Accept implements net.Listener.
func (l *ownedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || runtime.GOOS != "linux" {
		return c, err
	}
	local, ok := c.LocalAddr().(*net.TCPAddr)
	remote, is := c.RemoteAddr().(*net.TCPAddr)
	if ok && is && sockowner.IsLocal(local, remote) {
		at := weak.Make(remote)
		l.owners.m.Store(at, &owner{local: *local, remote: *remote})
		runtime.AddCleanup(remote, func(at weak.Pointer[net.TCPAddr]) { l.owners.m.Delete(at) }, at)
	}
	return c, nil
}

// of is server.Config.Local.
func (o *owners) of(a net.Addr) (server.User, bool) {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return server.User{}, false
	}
	v, ok := o.m.Load(weak.Make(t))
	if !ok {
		return server.User{}, false
	}
	x := v.(*owner)
	x.once.Do(func() {
		if err := x.find(); err != nil {
			o.tell(x)
		}
	})
	return x.user, true
}

// tell says once that the kernel does not tell. It answers ENOENT then, as of a connection that has just ended: but
// the end that is here is still there.
func (o *owners) tell(x *owner) {
	_, err := sockowner.Of(&x.remote, &x.local)
	if err == nil || o.log == nil {
		return
	}
	o.told.Do(func() {
		o.log.Warn("clients on this machine are refused: the kernel does not say whose their connections are",
			"error", err, "fix", "as root: modprobe tcp_diag")
	})
}

// find asks the kernel whose the socket is. If it does not know, nobody is believed.
func (x *owner) find() error {
	uid, err := sockowner.Of(&x.local, &x.remote)
	if errors.Is(err, sockowner.ErrUnknown) {
		uid = caller.None
	}
	x.user.UID = uid
	if uid == 0 || uid == caller.None {
		return err
	}
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil { // without a name he has no groups
		ids, _ := u.GroupIds() // the primary group at least
		for _, id := range append([]string{u.Gid}, ids...) {
			if n, err := strconv.ParseUint(id, 10, 32); err == nil {
				x.user.GIDs = append(x.user.GIDs, uint32(n))
			}
		}
	}
	return nil
}
