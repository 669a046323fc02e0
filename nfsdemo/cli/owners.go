package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"weak"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/internal/users"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/xdr"
)

// owners knows the users at the other end of connections from this machine: there, nobody has to be believed.
type owners struct {
	m     sync.Map // of weak.Pointer[net.TCPAddr] to *owner
	log   *slog.Logger
	told  sync.Once
	users users.Users // of this machine

	mu     sync.Mutex
	kernel *users.Kernel // nil: not opened yet
}

// owner is a user of this machine.
type owner struct {
	uid  uint32 // caller.None: not known
	name string // tells him from others
}

// listen notes who the connections belong to that l accepts. A connection keeps the address that RemoteAddr returns, so
// that its pointer tells connections apart. With an error the result is l: it notes nothing.
func (o *owners) listen(l net.Listener) (net.Listener, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kernel == nil {
		k, err := users.Open()
		if err != nil {
			return l, err
		}
		o.kernel = k
	}
	return &ownedListener{l, o, o.kernel}, nil
}

// close ends the questions: nobody is accepted any more.
func (o *owners) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kernel != nil {
		o.kernel.Close()
	}
	return nil
}

type ownedListener struct {
	net.Listener
	owners *owners
	kernel *users.Kernel
}

// device is an rdmap.Device.
type device interface{ Refuse(private []byte) }

// Accept implements net.Listener. The kernel is asked here, as soon as anybody can: what is sent on a socket whose
// process has closed it meanwhile is nobody's.
func (l *ownedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return c, err
	}
	uid, local, err := l.kernel.Owner(c)
	if !local {
		return c, nil
	}
	if d, ok := c.(device); ok { // no socket tells who of this machine it is
		d.Refuse(nil)
		l.owners.log.Warn("a client on this machine is refused: of a connection over a card nobody knows whose it is", "client", c.RemoteAddr(), "fix", "use NFS/TCP, or files")
		return l.Accept()
	}
	if err != nil {
		l.owners.refuses(err)
		uid = caller.None
	}
	remote := c.RemoteAddr().(*net.TCPAddr) //nolint:forcetypeassert // others are not local
	at := weak.Make(remote)
	l.owners.m.Store(at, &owner{uid: uid, name: strconv.FormatUint(uint64(uid), 10)})
	runtime.AddCleanup(remote, func(at weak.Pointer[net.TCPAddr]) { l.owners.m.Delete(at) }, at)
	return c, nil
}

// refuses says once that nobody on this machine can call. That one has closed his socket is his affair.
func (o *owners) refuses(why error) {
	if errors.Is(why, users.ErrMute) {
		o.told.Do(func() {
			o.log.Warn("clients on this machine are refused", "error", why, "fix", "as root: modprobe tcp_diag")
		})
	}
}

// find returns who is at the other end of a connection; nil: another machine.
func (o *owners) find(a net.Addr) *owner {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return nil
	}
	v, ok := o.m.Load(weak.Make(t))
	if !ok {
		return nil
	}
	return v.(*owner)
}

// name is transport.Duplicates.Owner.
func (o *owners) name(a net.Addr) string {
	if x := o.find(a); x != nil {
		return x.name
	}
	return ""
}

// of is server.Config.Local. His groups are asked for when a call comes, because that may take a directory service.
func (o *owners) of(a net.Addr) (server.User, bool) {
	x := o.find(a)
	if x == nil {
		return server.User{}, false
	}
	u := server.User{UID: x.uid}
	if x.uid != 0 && x.uid != caller.None {
		got, _ := o.users.ByID(x.uid) // a number without a name has no groups
		u.GIDs = got.GIDs
	}
	return u, true
}

// check is proxy.Proxy.Check: the server believes the proxy, which therefore believes nobody on this machine. What it
// passes on it cannot change: so a group that is not the user's is refused, too.
func (o *owners) check(a net.Addr, call *xdr.CallHeader) error {
	u, local := o.of(a)
	if !local || u.UID == 0 || call.Cred.Flavor != xdr.AuthSys {
		return nil
	}
	c, err := xdr.ParseSysCred(call.Cred.Body)
	if err != nil {
		return err
	}
	if c.UID != u.UID || u.UID == caller.None {
		return fmt.Errorf("user %d of this machine claims to be user %d", int32(u.UID), c.UID)
	}
	for _, gid := range append(c.GIDs, c.GID) {
		if !slices.Contains(u.GIDs, gid) {
			return fmt.Errorf("user %d of this machine claims group %d, which is none of his", u.UID, gid)
		}
	}
	return nil
}
