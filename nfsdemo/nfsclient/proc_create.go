package nfsclient

import (
	"bytes"
	"context"
	"path"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Create makes a regular file. With excl an existing file is an error (GUARDED); without, it is
// truncated to 0 octets (RFC 1813 Section 3.3.8). mode holds the permission bits of a new file.
func (c *Client) Create(ctx context.Context, dir *Node, name string, mode uint32, excl bool) (*Node, error) {
	args := nfs3.CreateArgs{
		Where: nfs3.DirOpArgs{Dir: dir.FH, Name: name},
		Mode:  nfs3.Unchecked,
		Attr:  nfs3.SetAttr{SetMode: true, Mode: mode & 0o7777, SetSize: true},
	}
	if excl {
		args.Mode = nfs3.Guarded
	}
	return c.makeNode(ctx, dir, name, nfs3.ProcCreate, &args)
}

// Mkdir makes a directory (RFC 1813 Section 3.3.9).
func (c *Client) Mkdir(ctx context.Context, dir *Node, name string, mode uint32) (*Node, error) {
	args := nfs3.MkdirArgs{
		Where: nfs3.DirOpArgs{Dir: dir.FH, Name: name},
		Attr:  nfs3.SetAttr{SetMode: true, Mode: mode & 0o7777},
	}
	return c.makeNode(ctx, dir, name, nfs3.ProcMkdir, &args)
}

// Symlink makes a symbolic link; its target is opaque text (RFC 1813
// Section 3.3.10).
func (c *Client) Symlink(ctx context.Context, dir *Node, name, target string) (*Node, error) {
	args := nfs3.SymlinkArgs{Where: nfs3.DirOpArgs{Dir: dir.FH, Name: name}, Path: target}
	call := rpc.Call{
		Proc: uint32(nfs3.ProcSymlink), Args: xdr.AppendUint32(xdr.Encode(nil, args.Head()), uint32(len(target))), Item: []byte(target),
		MaxResults: nfs3.ProcSymlink.MaxRes(),
	}
	call.ItemPos = len(call.Args)
	return c.newNode(ctx, dir, name, &call)
}

// makeNode calls a procedure that makes an object.
func (c *Client) makeNode(ctx context.Context, dir *Node, name string, proc nfs3.Proc, args xdr.Message) (*Node, error) {
	call := rpc.Call{Proc: uint32(proc), Args: xdr.Encode(nil, args), MaxResults: proc.MaxRes()}
	return c.newNode(ctx, dir, name, &call)
}

// newNode sends such a call. Handle and attributes are optional in the results: if the server
// returns no handle, newNode finds it with LOOKUP (RFC 1813 Section 3.3.8).
func (c *Client) newNode(ctx context.Context, dir *Node, name string, call *rpc.Call) (*Node, error) {
	n := &Node{Path: path.Join(dir.Path, name)}
	var res nfs3.NewRes
	err := c.exchange(ctx, call, &res, func() error {
		n.FH, n.Attr = bytes.Clone(res.Handle.Handle), res.Attr.Attr
		return nil
	})
	switch {
	case err != nil:
		return nil, pathErr(strings.ToLower(nfs3.Proc(call.Proc).String()), n.Path, err)
	case !res.Handle.Present:
		return c.Child(ctx, dir, name)
	case !res.Attr.Present:
		return n, c.Refresh(ctx, n)
	}
	return n, nil
}
