package server

import (
	"context"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

const maxMountPath = mount3.MaxPath

// nameTime is how long MNT waits until it is known which names a client has.
const nameTime = 6 * time.Second

// serveMount answers one MOUNT call (RFC 1813 Section 5.2).
func (s *Server) serveMount(ctx context.Context, c *Call) error {
	d := xdr.NewDecoder(c.Args)
	switch mount3.Proc(c.Proc) {
	case mount3.ProcMnt:
		if c.Vers < mount3.Version {
			// Choice: EINVAL, in the words of Linux "an incorrect mount option"; NFSv2's handles are too short for ours.
			c.Resp.Results = xdr.AppendUint32(c.Resp.Results, uint32(mount3.ErrInval))
			return nil
		}
		return s.mnt(ctx, c, &d)
	case mount3.ProcDump:
		var res mount3.DumpRes
		for _, m := range s.mounts.list() {
			res.Mounts = append(res.Mounts, mount3.Mount{Host: m.Host, Dir: m.Dir})
		}
		c.Resp.Results = xdr.Encode(c.Resp.Results, &res)
	case mount3.ProcUmnt:
		var args mount3.PathArgs
		if err := xdr.Decode(&d, &args).Err(); err != nil {
			return err
		}
		s.mounts.remove(func(m *Mount) bool { return m.Host == peeraddr.Host(c.RemoteAddr) && m.Dir == args.Path })
	case mount3.ProcUmntAll:
		s.ForgetMounts(peeraddr.Host(c.RemoteAddr))
	case mount3.ProcExport:
		res := mount3.ExportRes{Exports: s.exportList()}
		c.Resp.Results = xdr.Encode(c.Resp.Results, &res)
	case mount3.ProcNull:
	}
	return nil
}

// mnt is MNT: it returns the handle of an export or of a directory below it.
func (s *Server) mnt(ctx context.Context, c *Call, d *xdr.Decoder) error {
	var args mount3.PathArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	var res mount3.MountRes
	var e *export
	if res.Handle, e, res.Status = s.walk(ctx, c, args.Path); res.Status == mount3.OK {
		if res.Flavors = e.Sec; len(e.Sec) == 0 { // best first
			res.Flavors = []xdr.AuthFlavor{xdr.AuthSys, xdr.AuthNone}
		}
		s.mounts.add(peeraddr.Host(c.RemoteAddr), args.Path)
	}
	c.Resp.Results = xdr.Encode(c.Resp.Results, &res)
	return nil
}

// walk finds the directory of a mount path, and its export as the caller sees it. It does not follow symbolic links.
func (s *Server) walk(ctx context.Context, c *Call, dir string) (nfs3.FileHandle, *export, mount3.Status) {
	if !path.IsAbs(dir) || strings.Contains(dir, "\x00") {
		return nil, nil, mount3.ErrNoEnt
	}
	e, rest := s.exportOf(path.Clean(dir))
	if e != nil {
		e = s.enter(e.id)
	}
	if e == nil {
		return nil, nil, mount3.ErrNoEnt
	}
	defer e.use.leave()
	// MNT has no answer that means "later".
	ctx, cancel := context.WithTimeout(ctx, nameTime)
	defer cancel()
	seen, err := s.admit(ctx, e, c)
	if err != nil {
		s.cfg.Logger.Warn("server: mount refused", zap.String("client", peeraddr.Host(c.RemoteAddr)), zap.Uint32("uid", c.Cred.UID),
			zap.String("machine", c.Cred.Machine), zap.String("path", dir), zap.Error(err))
		return nil, nil, mountStatus(err)
	}
	if e.FS == nil {
		return nil, nil, mount3.ErrIO
	}
	n := e.FS.Root()
	a, err := n.Attr()
	for name := range strings.SplitSeq(rest, "/") {
		if err == nil && name != "" {
			n, a, err = n.Lookup(name)
		}
	}
	if err == nil && a.Type != nfs3.TypeDir {
		err = nfs3.ErrNotDir
	}
	if err != nil {
		return nil, nil, mountStatus(err)
	}
	return e.appendHandle(nil, n), seen, mount3.OK
}

// exportOf returns the export with the longest path that is dir or above it, and the rest of dir.
func (s *Server) exportOf(dir string) (best *export, rest string) {
	for _, e := range s.table.Load().list {
		if best != nil && len(e.Path) <= len(best.Path) {
			continue
		}
		if left, ok := strings.CutPrefix(dir, e.Path); ok && (left == "" || left[0] == '/' || e.Path == "/") {
			best, rest = e, left
		}
	}
	return best, rest
}

// ExportAt returns the path of the export that a path of MNT is in, "" if there is none.
func (s *Server) ExportAt(dir string) string {
	if e, _ := s.exportOf(path.Clean(dir)); e != nil {
		return e.Path
	}
	return ""
}

// byStatus converts NFS statuses to mountstat3 (RFC 1813 Section 5.1.5).
var byStatus = map[nfs3.Status]mount3.Status{
	nfs3.ErrPerm:        mount3.ErrPerm,
	nfs3.ErrNoEnt:       mount3.ErrNoEnt,
	nfs3.ErrStale:       mount3.ErrNoEnt,
	nfs3.ErrAcces:       mount3.ErrAcces,
	nfs3.ErrNotDir:      mount3.ErrNotDir,
	nfs3.ErrInval:       mount3.ErrInval,
	nfs3.ErrNameTooLong: mount3.ErrNameTooLong,
	nfs3.ErrIO:          mount3.ErrIO,
}

// mountStatus returns the status with which MNT answers an error.
func mountStatus(err error) mount3.Status {
	s, _ := statusOf(err)
	if m, ok := byStatus[s]; ok {
		return m
	}
	return mount3.ErrServerFault
}

// Names reports whether an export names the client at an address, by a network or by its name. Whether a name is that of the
// address may not be known yet: then this call has it looked up, and returns false.
func (s *Server) Names(a net.Addr) bool {
	ip := peeraddr.IP(a).WithZone("")
	for _, e := range s.table.Load().list {
		for _, c := range e.Clients {
			if slices.ContainsFunc(c.Nets, func(p netip.Prefix) bool { return p.Contains(ip) }) {
				return true
			}
			for _, name := range c.Names {
				if has, err := s.cfg.Named(ended, name, ip); has && err == nil {
					return true
				}
			}
		}
	}
	return false
}

// exportList returns the results of EXPORT.
func (s *Server) exportList() []mount3.Export {
	out := make([]mount3.Export, 0, len(s.table.Load().list))
	for _, e := range s.table.Load().list {
		x := mount3.Export{Dir: e.Path}
		for _, c := range e.Clients {
			for _, p := range c.Nets {
				x.Groups = append(x.Groups, p.String())
			}
			if x.Groups = append(x.Groups, c.Names...); c.Everybody() {
				x.Groups = append(x.Groups, "*")
			}
			for _, name := range c.Certs {
				x.Groups = append(x.Groups, "tls:"+name)
			}
		}
		out = append(out, x)
	}
	return out
}

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
