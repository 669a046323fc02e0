package nfsclient

import (
	"bytes"
	"context"
	"path"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Child looks up one name in a directory (RFC 1813 Section 3.3.3). It does not follow a symbolic
// link.
func (c *Client) Child(ctx context.Context, dir *Node, name string) (*Node, error) {
	n := &Node{Path: path.Join(dir.Path, name)}
	var res nfs3.LookupRes
	call := rpc.Call{
		Proc: uint32(nfs3.ProcLookup), Args: xdr.Encode(nil, &nfs3.LookupArgs{Dir: dir.FH, Name: name}),
		MaxResults: nfs3.ProcLookup.MaxRes(),
	}
	err := c.exchange(ctx, &call, &res, func() error {
		n.FH, n.Attr = bytes.Clone(res.Handle), res.Attr.Attr
		return nil
	})
	if err != nil {
		return nil, pathErr("lookup", n.Path, err)
	}
	if !res.Attr.Present {
		err = c.Refresh(ctx, n)
	}
	return n, err
}

// maxLink is the longest target of a symbolic link that is read, in octets.
const maxLink = nfs3.MaxPath

// ReadLink returns the target of a symbolic link (RFC 1813 Section 3.3.5).
func (c *Client) ReadLink(ctx context.Context, n *Node) (string, error) {
	args := nfs3.ReadLinkArgs{Handle: n.FH}
	sink := make([]byte, maxLink)
	target := ""
	call := rpc.Call{
		Proc: uint32(nfs3.ProcReadLink), Args: xdr.Encode(nil, &args),
		Sink: sink, MaxResults: nfs3.ProcReadLink.MaxRes(),
	}
	err := c.send(ctx, nfs3.ProcReadLink, &call, func(d *xdr.Decoder, reply *rpc.Reply) error {
		var res nfs3.ReadLinkRes
		if err := xdr.Decode(d, res.Head()).Err(); err != nil {
			return err
		}
		if res.Status != nfs3.OK {
			return &StatusError{Proc: nfs3.ProcReadLink, Status: res.Status}
		}
		if len(reply.Item) != int(d.Uint32()) {
			return ErrBadReply
		}
		target = string(reply.Item)
		return nil
	})
	return target, pathErr("readlink", n.Path, err)
}

// Remove removes a file, not a directory (RFC 1813 Section 3.3.12).
func (c *Client) Remove(ctx context.Context, dir *Node, name string) error {
	var res nfs3.RemoveRes
	err := c.call(ctx, nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: dir.FH, Name: name}, &res)
	return pathErr("remove", path.Join(dir.Path, name), err)
}

// Rmdir removes an empty directory (RFC 1813 Section 3.3.13).
func (c *Client) Rmdir(ctx context.Context, dir *Node, name string) error {
	var res nfs3.RmdirRes
	err := c.call(ctx, nfs3.ProcRmdir, &nfs3.RmdirArgs{Dir: dir.FH, Name: name}, &res)
	return pathErr("rmdir", path.Join(dir.Path, name), err)
}

// Rename moves a name, and replaces an existing file with the new name (RFC 1813 Section 3.3.14).
func (c *Client) Rename(ctx context.Context, from *Node, name string, to *Node, newName string) error {
	args := nfs3.RenameArgs{
		From: nfs3.DirOpArgs{Dir: from.FH, Name: name},
		To:   nfs3.DirOpArgs{Dir: to.FH, Name: newName},
	}
	var res nfs3.RenameRes
	err := c.call(ctx, nfs3.ProcRename, &args, &res)
	return pathErr("rename", path.Join(from.Path, name), err)
}

// Link gives a file another name (RFC 1813 Section 3.3.15).
func (c *Client) Link(ctx context.Context, n, dir *Node, name string) error {
	args := nfs3.LinkArgs{Handle: n.FH, Link: nfs3.DirOpArgs{Dir: dir.FH, Name: name}}
	var res nfs3.LinkRes
	err := c.call(ctx, nfs3.ProcLink, &args, &res)
	return pathErr("link", path.Join(dir.Path, name), err)
}
