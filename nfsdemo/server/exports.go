package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Squash says which callers' ids are replaced by the anonymous ones.
type Squash int

// Ways to squash.
const (
	SquashRoot Squash = iota // uid 0 and gid 0
	SquashNone               // none
	SquashAll                // all
)

// String returns the name as in exports(5).
func (s Squash) String() string {
	switch s {
	case SquashRoot:
		return "root_squash"
	case SquashNone:
		return "no_root_squash"
	case SquashAll:
		return "all_squash"
	}
	return fmt.Sprintf("squash(%d)", int(s))
}

// XprtSec says how the connections of calls may be protected, as xprtsec of exports(5): a set of the values below. The
// zero value is all of them.
type XprtSec uint8

// Members of [XprtSec]. A connection is of one kind, so where a certificate will do but need not be, name XprtTLS and XprtMTLS.
const (
	XprtNone XprtSec = 1 << iota // in clear, as RDMA is too
	XprtTLS                      // TLS without a certificate of the client
	XprtMTLS                     // TLS with a certificate of the client that the server has verified
)

// String returns the words of exports(5).
func (x XprtSec) String() string {
	var words []string
	for i, w := range [...]string{"none", "tls", "mtls"} {
		if x == 0 || x>>i&1 == 1 {
			words = append(words, w)
		}
	}
	return strings.Join(words, ":")
}

// xprtOf is how a connection is protected.
func xprtOf(s *tls.ConnectionState) XprtSec {
	switch {
	case s == nil:
		return XprtNone
	case len(s.VerifiedChains) == 0:
		return XprtTLS
	}
	return XprtMTLS
}

// Nobody is the default anonymous uid and gid.
const Nobody = 65534

// Export is a file system with a name.
type Export struct {
	// Path is the path that MNT names: absolute and clean, at most 1024 octets. Directories
	// below it can be mounted too.
	Path string
	// Under, if not "", is the Path of another export, above this one. There LOOKUP of the directory that Path names leads to
	// this one, as crossmnt and nohide of exports(5) do, for who may use it.
	Under string
	// FS holds the files. If nil, they are not there now: calls wait (NFS3ERR_JUKEBOX), and MNT is refused. The caller
	// closes it, after Released or after the server.
	FS backend.FS
	// Released, if not nil, is called when FS is no longer exported, and no call uses it any more.
	Released func()
	// ReadOnly refuses every change with NFS3ERR_ROFS.
	ReadOnly bool
	// Squash says whose ids become AnonUID and AnonGID. The zero value squashes root. The id
	// 2^32-1, which is nobody's, always becomes anonymous. If the FS cannot act as others
	// (Info.Owners), every caller is the user of this process, whatever Squash says.
	Squash Squash
	// AnonUID and AnonGID are the anonymous ids; 0, which would be root's, stands for Nobody.
	AnonUID, AnonGID uint32
	// Secure demands of calls over TCP a port below 1024, which only root of the client's machine
	// can use, unless the user at the other end is known (Config.Local). It has no effect over
	// RDMA, where Linux's client has no such port, nor where no id is believed anyway because the FS
	// cannot act as others.
	Secure bool
	// XprtSec says how connections of NFS must be protected; other calls get NFS3ERR_ACCES. MOUNT and locks are not
	// asked: Linux calls them in clear.
	XprtSec XprtSec
	// Sec are the ways in which users are known to NFS, best first, as sec= of exports(5): AuthSys, which AUTH_NONE is too,
	// and those of Kerberos. Other calls get NFS3ERR_ACCES, except what a client asks before it knows (RFC 2623 Section
	// 2.3.2): GETATTR, FSINFO and FSSTAT of the root. MOUNT tells clients; it and locks are not asked. If empty, AuthSys.
	Sec []xdr.AuthFlavor
	// Clients are who may use the export, with options of their own in place of those above; if empty, everybody. The
	// first one counts that has the address. Others get MNT3ERR_ACCES and NFS3ERR_ACCES.
	Clients []Client
}

// Client is a group of clients of an Export; its fields are as there.
type Client struct {
	Nets  []netip.Prefix
	Names []string // as Config.Named knows them
	// Certs are certificates that the server has verified, by a DNS name or a URI of their subjectAltName, or by their
	// whole subject as RFC 2253 writes it. They name machines, never users. MOUNT and locks, which Linux calls in
	// clear, take whoever has shown none for one of them.
	Certs            []string
	ReadOnly         bool
	Squash           Squash
	AnonUID, AnonGID uint32
	Secure           bool
	XprtSec          XprtSec
	Sec              []xdr.AuthFlavor
}

// Flavors that only MOUNT knows: what RPCSEC_GSS protects, with Kerberos 5 (RFC 2623 Section 4.1).
const (
	Krb5  xdr.AuthFlavor = 390003 // who calls
	Krb5i xdr.AuthFlavor = 390004 // and arguments and results from change
	Krb5p xdr.AuthFlavor = 390005 // and from being read
)

// flavorOf returns how the user of a call is known.
func flavorOf(c *rpc.Request) xdr.AuthFlavor {
	switch g := c.GSS; {
	case g == nil:
		return xdr.AuthSys
	case g.Principal.Mechanism != krb5:
		return xdr.RPCSECGSS // no export names it
	default:
		return Krb5 + xdr.AuthFlavor(g.Service-gss.None)
	}
}

// krb5 is the mechanism of those flavors in gss.Principal.
const krb5 = "krb5"

// Everybody reports whether the group names nobody, and so is everybody.
func (c *Client) Everybody() bool { return len(c.Nets)+len(c.Names)+len(c.Certs) == 0 }

// certified reports whether the certificate of a call is one of the group's.
func (c *Client) certified(call *Call) bool {
	if len(c.Certs) == 0 {
		return false
	}
	if xprtOf(call.TLS) != XprtMTLS {
		return !protected(call.Prog)
	}
	cert := call.TLS.VerifiedChains[0][0]
	return slices.ContainsFunc(c.Certs, func(name string) bool {
		return name == cert.Subject.String() ||
			slices.ContainsFunc(cert.DNSNames, func(n string) bool { return strings.EqualFold(n, name) }) ||
			slices.ContainsFunc(cert.URIs, func(u *url.URL) bool { return u.String() == name })
	})
}

// export is an Export that is being served, as one group of clients sees it.
type export struct {
	Export
	id    uint32 // the first 4 octets of every handle
	info  backend.Info
	use   *use
	views []*export // by Clients; they have none
	below []*crossing
}

// use counts the calls that use an FS, and the table as one while it has it. At zero the FS is released.
type use struct {
	n        atomic.Int64
	released func()
}

// enter returns false if the FS is released.
func (u *use) enter() bool {
	for {
		n := u.n.Load()
		if n == 0 || u.n.CompareAndSwap(n, n+1) {
			return n > 0
		}
	}
}

func (u *use) leave() {
	if u.n.Add(-1) == 0 && u.released != nil {
		u.released()
	}
}

// exportTable is what is being served.
type exportTable struct {
	list []*export
	byID map[uint32]*export
}

// SetExports changes what is served, perhaps to nothing. Handles of exports that are served no longer are stale; calls in
// progress go on as they began: see Export.Released.
func (s *Server) SetExports(list []Export) error {
	s.setting.Lock()
	defer s.setting.Unlock()
	old := s.table.Load()
	t, err := newExports(list, old, s.cfg.Named != nil)
	if err != nil {
		return err
	}
	s.table.Store(t) // before the old ones are left: who finds one released finds the new table
	if old != nil {
		for _, e := range old.list {
			if !slices.ContainsFunc(t.list, func(x *export) bool { return x.use == e.use }) {
				e.use.leave()
			}
		}
	}
	return nil
}

// enter returns the export of a number with an FS that stays open until its use is left; nil if there is none.
func (s *Server) enter(id uint32) *export {
	for {
		e := s.table.Load().byID[id]
		if e == nil || e.use.enter() {
			return e
		}
	}
}

// ExportOf returns the path of the export that a handle belongs to, "" if there is none.
func (s *Server) ExportOf(h nfs3.FileHandle) string {
	if e := s.export(h); e != nil {
		return e.Path
	}
	return ""
}

// FileID returns the number that GETATTR gives to the file of a handle; 0 if it is gone, or cannot be found at once. It may
// have to wait for a disk.
func (s *Server) FileID(h nfs3.FileHandle) uint64 {
	e := s.export(h)
	if e != nil {
		e = s.enter(e.id)
	}
	if e == nil {
		return 0
	}
	defer e.use.leave()
	if e.FS == nil {
		return 0
	}
	n, err := e.FS.Resolve(nil, h[handleHead:])
	if err != nil {
		return 0
	}
	a, _ := n.Attr() // the zero Attr
	return a.FileID
}

// newExports checks the exports and numbers them. The number is derived from the path, so that handles
// outlive the process. An FS that the old table has stays in use.
func newExports(list []Export, old *exportTable, named bool) (*exportTable, error) {
	t := &exportTable{byID: make(map[uint32]*export)}
	for i := range list {
		e := list[i]
		if !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path || len(e.Path) > maxMountPath {
			return nil, fmt.Errorf("server: export path %q is not absolute and clean", e.Path)
		}
		if err := e.check(named); err != nil {
			return nil, fmt.Errorf("server: export %s: %w", e.Path, err)
		}
		h := fnv.New32a()
		h.Write([]byte(e.Path))
		// Of what is not there nothing is known: nobody is believed.
		x := &export{Export: e, id: h.Sum32(), info: backend.Info{Owners: true, MayBlock: true}, use: &use{}}
		if x.use.n.Store(1); e.FS != nil {
			x.info, x.use.released = e.FS.Info(), e.Released
			if was := old.of(x.id); was != nil && was.FS == e.FS {
				x.use = was.use
			}
		}
		x.setAnon()
		if other := t.byID[x.id]; other != nil {
			return nil, fmt.Errorf("server: export paths %q and %q are the same or collide", other.Path, e.Path)
		}
		for _, c := range e.Clients {
			v := *x
			v.ReadOnly, v.Squash, v.AnonUID, v.AnonGID, v.Secure, v.XprtSec, v.Sec = c.ReadOnly, c.Squash, c.AnonUID, c.AnonGID, c.Secure, c.XprtSec, c.Sec
			v.setAnon()
			x.views = append(x.views, &v)
		}
		t.byID[x.id] = x
		t.list = append(t.list, x)
	}
	for _, x := range t.list {
		for _, up := range t.list {
			rest, ok := strings.CutPrefix(x.Path, strings.TrimSuffix(up.Path, "/")+"/")
			if !ok || up.Path != x.Under {
				continue
			}
			up.below = append(up.below, &crossing{path: rest, to: x.id})
			for _, v := range up.views {
				v.below = up.below
			}
		}
	}
	return t, nil
}

func (t *exportTable) of(id uint32) *export {
	if t == nil {
		return nil
	}
	return t.byID[id]
}

func (e *Export) check(named bool) error {
	all := []setting.Setting{setting.Int("Squash", int(e.Squash), int(SquashRoot), int(SquashAll))}
	for i, c := range e.Clients {
		if len(c.Names) > 0 && !named {
			return setting.Error("Clients[%d].Names: set Config.Named, which knows them", i)
		}
		all = append(all, setting.Int(fmt.Sprintf("Clients[%d].Squash", i), int(c.Squash), int(SquashRoot), int(SquashAll)))
	}
	return setting.Check(all...)
}

// setAnon fills in the anonymous ids, each by itself: who names one of them does not make the other root's.
func (e *export) setAnon() {
	e.AnonUID, e.AnonGID = cmp.Or(e.AnonUID, Nobody), cmp.Or(e.AnonGID, Nobody)
	if !e.info.Owners {
		e.AnonUID, e.AnonGID = e.info.UID, e.info.GID
	}
}

// nameMax is the longest name of an export in octets.
func (e *export) nameMax() int { return int(min(e.info.NameMax, nfs3.MaxName)) }

// seenBy returns the export as the client of a call sees it, or why it may not use it. Whether a name is that of its address
// may be unknown; then that group could be the first one, and its rights are neither given nor passed over.
func (s *Server) seenBy(ctx context.Context, e *export, call *Call) (*export, error) {
	if len(e.Clients) == 0 {
		return e, nil
	}
	ip := peeraddr.IP(call.RemoteAddr).WithZone("") // the zero Addr is in no network
	unknown := -1
	for i, c := range e.Clients {
		in := c.Everybody() || c.certified(call) || slices.ContainsFunc(c.Nets, func(p netip.Prefix) bool { return p.Contains(ip) })
		for _, name := range c.Names {
			if in {
				break
			}
			has, err := s.cfg.Named(ctx, name, ip)
			if in = has && err == nil; err != nil && unknown < 0 {
				unknown = i
			}
		}
		switch {
		case in && (unknown < 0 || unknown == i || sameOptions(e.Clients[unknown], c)):
			return e.views[i], nil
		case in:
			return nil, errUnknown
		}
	}
	if unknown >= 0 {
		return nil, errUnknown
	}
	return nil, refusal("no export to this address")
}

// sameOptions reports whether two groups have the same rights.
func sameOptions(a, b Client) bool {
	a.Nets, a.Names, a.Certs, b.Nets, b.Names, b.Certs = nil, nil, nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

// ended is the context of calls that do not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// errUnknown has clients wait.
var errUnknown = fmt.Errorf("it is not known yet whether a name of the exports is that of this address: %w", nfs3.ErrJukebox)

// admit returns the export as the caller of c sees it, or why he may not use it; with errSec, both. Until ctx ends it waits for the names of
// an address.
func (s *Server) admit(ctx context.Context, e *export, c *Call) (*export, error) {
	v, err := s.seenBy(ctx, e, c)
	if err != nil {
		return nil, err
	}
	if v.XprtSec != 0 && protected(c.Prog) && v.XprtSec&xprtOf(c.TLS) == 0 {
		return nil, errXprtSec
	}
	if v.Secure && v.FS != nil && v.info.Owners && c.Network != "rdma" && !c.known {
		if !peeraddr.Reserved(c.RemoteAddr) {
			return nil, refusal("a port of 1024 or above: let root mount, or export with insecure")
		}
	}
	if protected(c.Prog) && !slices.Contains(v.sec(), flavorOf(c.Request)) {
		return v, errSec
	}
	return v, nil
}

// sec are the flavors of an export.
func (e *export) sec() []xdr.AuthFlavor {
	if len(e.Sec) == 0 {
		return []xdr.AuthFlavor{xdr.AuthSys}
	}
	return e.Sec
}

// errSec refuses a call whose user is not known as its export wants.
const errSec = refusal("a user who is not known as sec says")

// protected reports whether the calls of a program are asked how their connection is protected. Linux calls the others, MOUNT
// and locks, in clear.
func protected(prog uint32) bool { return prog == nfs3.Program || prog == nfs3.ACLProgram }

// errXprtSec refuses a call whose connection is not protected as its export wants.
const errXprtSec = refusal("a connection that is not protected as xprtsec says")

// refusal is why somebody may not use an export.
type refusal string

func (r refusal) Error() string { return string(r) }

// Unwrap returns the status of calls.
func (r refusal) Unwrap() error { return nfs3.ErrAcces }

// crossing is a directory of an export that another one covers.
type crossing struct {
	path string // below the root
	to   uint32 // number of the other

	mu sync.Mutex
	id uint64 // of the directory; 0: not found yet
}

// at reports whether a directory is the one.
func (c *crossing) at(fsys backend.FS, id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == 0 { // found now: who serves the exports does not wait for their disks
		n, a, err := fsys.Root(), nfs3.Attr{}, error(nil)
		for name := range strings.SplitSeq(c.path, "/") {
			if n, a, err = n.Lookup(name); err != nil {
				return false
			}
		}
		c.id = a.FileID
	}
	return c.id == id
}

// over returns what covers a directory; nil: nothing.
func (e *export) over(a *nfs3.Attr) *crossing {
	if a.Type != nfs3.TypeDir {
		return nil
	}
	for _, c := range e.below {
		if c.at(e.FS, a.FileID) {
			return c
		}
	}
	return nil
}

// cross returns the root of the export that covers a directory, and its handle. As Linux's server does, it returns nil if there is
// none, or none for this client: he sees the directory.
func (o *op) cross(f *file) (nfs3.FileHandle, *file, error) {
	c := o.exp.over(&f.attr)
	if c == nil {
		return nil, nil, nil
	}
	to := o.s.enter(c.to)
	if to == nil {
		return nil, nil, nil
	}
	defer to.use.leave()
	if _, err := o.s.admit(ended, to, o.c); err != nil && !errors.Is(err, errSec) { // who is not known as it wants asks there
		return nil, nil, nil
	}
	if to.FS == nil {
		return nil, nil, nfs3.ErrJukebox
	}
	root := to.FS.Root()
	a, err := root.Attr()
	if err != nil {
		return nil, nil, err
	}
	return to.appendHandle(nil, root), &file{node: root, attr: a}, nil
}
