package nfsclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// maxMountReply limits the results of EXPORT and DUMP over RDMA, in octets.
const maxMountReply = 256 << 10

// Mounter calls the MOUNT service (RFC 1813 Section 5). It is safe for concurrent
// use.
type Mounter struct{ rpc program }

// NewMounter makes calls through caller with the identity cred. Closing caller is left to the
// program of NewMounter.
func NewMounter(caller rpc.Caller, cred *xdr.SysCred) *Mounter {
	return &Mounter{program{caller: caller, prog: mount3.Program, vers: mount3.Version, cred: cred.Auth()}}
}

// Exports lists what the server exports (RFC 1813 Section 5.2.5).
func (m *Mounter) Exports(ctx context.Context) ([]mount3.Export, error) {
	var res mount3.ExportRes
	err := m.rpc.do(ctx, &rpc.Call{Proc: uint32(mount3.ProcExport), MaxResults: maxMountReply},
		func(d *xdr.Decoder, _ *rpc.Reply) error { return xdr.Decode(d, &res).Err() })
	return res.Exports, err
}

// Mount returns the handle of a directory (RFC 1813 Section 5.2.1). A refusal is a
// *MountError.
func (m *Mounter) Mount(ctx context.Context, dir string) (nfs3.FileHandle, error) {
	if len(dir) > mount3.MaxPath {
		return nil, &MountError{Path: dir, Status: mount3.ErrNameTooLong}
	}
	args := mount3.PathArgs{Path: dir}
	var fh nfs3.FileHandle
	err := m.rpc.do(ctx, &rpc.Call{Proc: uint32(mount3.ProcMnt), Args: xdr.Encode(nil, &args), MaxResults: 512},
		func(d *xdr.Decoder, _ *rpc.Reply) error {
			var res mount3.MountRes
			if err := xdr.Decode(d, &res).Err(); err != nil {
				return err
			}
			if res.Status != mount3.OK {
				return &MountError{Path: dir, Status: res.Status}
			}
			fh = bytes.Clone(res.Handle)
			return nil
		})
	return fh, err
}

// Unmount tells the server that dir is no longer used (RFC 1813 Section 5.2.3).
func (m *Mounter) Unmount(ctx context.Context, dir string) error {
	args := mount3.PathArgs{Path: dir}
	return m.rpc.do(ctx, &rpc.Call{Proc: uint32(mount3.ProcUmnt), Args: xdr.Encode(nil, &args)}, nil)
}

// attach mounts the export that contains p. exports is the list of the server, nil if it does not
// list them; then attach tries every prefix of p, the longest first.
func (m *Mounter) attach(ctx context.Context, p string) (export string, fh nfs3.FileHandle, exports []string, err error) {
	list, err := m.Exports(ctx)
	if err != nil && !unlisted(err) {
		return "", nil, nil, err
	}
	for _, e := range list {
		exports = append(exports, path.Clean("/"+e.Dir))
	}
	tries := prefixes(p)
	if len(exports) > 0 {
		best, ok := exportOf(exports, p)
		if !ok {
			return "", nil, exports, &ExportError{Path: p, Exports: exports}
		}
		tries = []string{best}
	}
	export, fh, err = m.first(ctx, tries)
	if err == nil && len(exports) == 0 {
		export = m.shortest(ctx, export, fh)
	}
	return export, fh, exports, err
}

// unlisted reports whether err says that the server has no EXPORT procedure. Servers say so by a
// status, or, like go-nfs v0.0.4, by a reply that ends before the status.
func unlisted(err error) bool {
	if _, ok := errors.AsType[*xdr.RPCStatusError](err); ok {
		return true
	}
	e, ok := errors.AsType[*rpc.RPCError](err)
	return ok && e.Reason == rpc.ReasonBadReply
}

// shortest returns the shortest prefix of dir that has the same handle fh as dir. Servers with one
// export, such as those built on go-nfs, may return its root for any path.
func (m *Mounter) shortest(ctx context.Context, dir string, fh nfs3.FileHandle) string {
	for dir != "/" {
		parent := path.Dir(dir)
		if h, err := m.Mount(ctx, parent); err != nil || !bytes.Equal(h, fh) {
			break
		}
		dir = parent
	}
	return dir
}

// first mounts the first of dirs that the server does not refuse. If it refuses all, first returns
// the error for the first one, which is the longest path.
func (m *Mounter) first(ctx context.Context, dirs []string) (dir string, fh nfs3.FileHandle, err error) {
	for _, dir := range dirs {
		fh, merr := m.Mount(ctx, dir)
		if merr == nil {
			return dir, fh, nil
		}
		if _, refused := errors.AsType[*MountError](merr); !refused {
			return "", nil, merr
		}
		if err == nil {
			err = merr
		}
	}
	return "", nil, err
}

// exportOf returns the longest export that contains p.
func exportOf(exports []string, p string) (string, bool) {
	var in []string
	for _, e := range exports {
		if within(e, p) {
			in = append(in, e)
		}
	}
	if len(in) == 0 {
		return "", false
	}
	return slices.MaxFunc(in, func(a, b string) int { return cmp.Compare(len(a), len(b)) }), true
}

// within reports whether clean path p is dir or below it.
func within(dir, p string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

// prefixes returns p, its parent, and so on up to "/".
func prefixes(p string) []string {
	list := []string{p}
	for p != "/" {
		p = path.Dir(p)
		list = append(list, p)
	}
	return list
}
