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

// Refresh fetches the attributes of n (RFC 1813 Section 3.3.1).
func (c *Client) Refresh(ctx context.Context, n *Node) error {
	args := nfs3.GetAttrArgs{Handle: n.FH} // not by call, as READ and WRITE are not: what is known here does not escape (4.3 us for 4.9)
	call := rpc.Call{
		Proc: uint32(nfs3.ProcGetAttr), Args: xdr.Encode(make([]byte, 0, 96), &args), MaxResults: nfs3.ProcGetAttr.MaxRes(),
	}
	err := c.send(ctx, nfs3.ProcGetAttr, &call, func(d *xdr.Decoder, _ *rpc.Reply) error {
		var res nfs3.GetAttrRes
		if err := xdr.Decode(d, &res).Err(); err != nil {
			return err
		}
		if res.Status != nfs3.OK {
			return &StatusError{Proc: nfs3.ProcGetAttr, Status: res.Status}
		}
		n.Attr = res.Attr
		return nil
	})
	return pathErr("stat", n.Path, err)
}

// SetAttr changes attributes of n and updates it (RFC 1813 Section 3.3.2).
func (c *Client) SetAttr(ctx context.Context, n *Node, change *nfs3.SetAttr) error {
	var res nfs3.SetAttrRes
	err := c.call(ctx, nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: n.FH, Attr: *change}, &res)
	if err == nil && res.Wcc.After.Present {
		n.Attr = res.Wcc.After.Attr
	}
	return pathErr("setattr", n.Path, err)
}

// Access asks which of the rights in want this client's identity has. The answer is a hint
// (RFC 1813 Section 3.3.4).
func (c *Client) Access(ctx context.Context, n *Node, want nfs3.Access) (nfs3.Access, error) {
	var res nfs3.AccessRes
	err := c.call(ctx, nfs3.ProcAccess, &nfs3.AccessArgs{Handle: n.FH, Access: want}, &res)
	return res.Access & want, pathErr("access", n.Path, err)
}

// StatFS returns the space of the file system of n (RFC 1813 Section 3.3.18).
func (c *Client) StatFS(ctx context.Context, n *Node) (*nfs3.FSStatRes, error) {
	res := new(nfs3.FSStatRes)
	err := c.call(ctx, nfs3.ProcFSStat, &nfs3.FSStatArgs{Handle: n.FH}, res)
	return res, pathErr("statfs", n.Path, err)
}

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

// read runs one READ of at most len(sink) octets (RFC 1813 Section 3.3.6) and passes the data to use:
// a part of sink, or of the reply, lent until use returns.
func (c *Client) read(ctx context.Context, n *Node, off int64, sink []byte, use func(data []byte) error) (got int, eof bool, err error) {
	args := nfs3.ReadArgs{Handle: n.FH, Offset: uint64(off), Count: uint32(len(sink))}
	call := rpc.Call{
		Proc: uint32(nfs3.ProcRead), Args: xdr.Encode(make([]byte, 0, 96), &args),
		Sink: sink, MaxResults: nfs3.ProcRead.MaxRes(),
	}
	err = c.send(ctx, nfs3.ProcRead, &call, func(d *xdr.Decoder, reply *rpc.Reply) error {
		var res nfs3.ReadRes
		if err := xdr.Decode(d, res.Head()).Err(); err != nil {
			return err
		}
		if res.Status != nfs3.OK {
			return &StatusError{Proc: nfs3.ProcRead, Status: res.Status}
		}
		if n := d.Uint32(); res.Count != n || len(reply.Item) != int(n) {
			return ErrBadReply
		}
		got, eof = len(reply.Item), res.EOF
		return use(reply.Item)
	})
	return got, eof, err
}

// pace counts the calls for one piece of a file. Servers answer READ and WRITE with as much as they like (RFC 1813
// Sections 3.3.6, 3.3.7), and one that moves an octet at a time is as useless as one that moves none.
type pace struct{ calls, octets int }

// fewCalls are not judged; of more, each has to move leastOctets on the average, which is a sector.
const (
	fewCalls    = 64
	leastOctets = 512
)

// next counts a call that has moved n octets, and after which more are to come.
func (p *pace) next(n int) error {
	p.calls++
	p.octets += n
	if n == 0 || p.calls >= fewCalls && p.octets < p.calls*leastOctets {
		return ErrNoProgress
	}
	return nil
}

// write runs one WRITE (RFC 1813 Section 3.3.7). It borrows data.
func (c *Client) write(ctx context.Context, n *Node, off int64, data []byte, stable nfs3.StableHow) (res nfs3.WriteRes, err error) {
	args := nfs3.WriteArgs{Handle: n.FH, Offset: uint64(off), Count: uint32(len(data)), Stable: stable}
	call := rpc.Call{
		Proc: uint32(nfs3.ProcWrite), Args: xdr.AppendUint32(xdr.Encode(make([]byte, 0, 96), args.Head()), args.Count), Item: data,
		MaxResults: nfs3.ProcWrite.MaxRes(),
	}
	call.ItemPos = len(call.Args)
	err = c.send(ctx, nfs3.ProcWrite, &call, func(d *xdr.Decoder, _ *rpc.Reply) error {
		if err := xdr.Decode(d, &res).Err(); err != nil {
			return err
		}
		switch {
		case res.Status != nfs3.OK:
			return &StatusError{Proc: nfs3.ProcWrite, Status: res.Status}
		case int64(res.Count) > int64(len(data)), res.Committed < stable:
			return ErrBadReply
		case res.Count == 0 && len(data) > 0:
			return ErrNoProgress
		}
		return nil
	})
	return res, err
}

// commit makes everything written to n durable and returns the write verifier
// (RFC 1813 Section 3.3.21).
func (c *Client) commit(ctx context.Context, n *Node) (nfs3.WriteVerf, error) {
	var res nfs3.CommitRes
	err := c.call(ctx, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: n.FH}, &res)
	return res.Verf, err
}

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
