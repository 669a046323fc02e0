package nfsclient

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Refresh fetches the attributes of n (RFC 1813 Section 3.3.1).
func (c *Client) Refresh(ctx context.Context, n *Node) error {
	var res nfs3.GetAttrRes
	err := c.call(ctx, nfs3.ProcGetAttr, &nfs3.GetAttrArgs{Handle: n.FH}, &res)
	if err == nil {
		n.Attr = res.Attr
	}
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
