package nfsclient

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/push"
)

// What tests from outside need of the inside: rpcbind's port, where they cannot listen,
// and whether a URL names one; the export that
// a path leads to, with the list that was seen; and the leases of pushed files, of which a test plays
// the server's part, or an answer that comes late.

func (c Config) WithRPCBind(port string) *Config { c.rpcbindPort = port; return &c }

func (u URL) WithGiven(given bool) URL { u.given = given; return u }

func (m *Mounter) Attach(ctx context.Context, p string) (string, nfs3.FileHandle, []string, error) {
	return m.attach(ctx, p)
}

func (f *PushFile) Lease() uint64             { return f.lease }
func (f *PushFile) SessionID() push.SessionID { return f.session.ID() }

func (f *PushFile) GiveBack(ctx context.Context) error { f.shut(); return f.giveBack(ctx) }

func (c *Client) Recall(a *pushfile.RecallArgs) pushfile.Status { return c.push.recall(a) }

func (c *Client) AskAgain(ctx context.Context, f *PushFile, n *Node) (lease uint64, err error) {
	c.push.opens()
	res, err := c.push.grant(ctx, f.session, n.FH, 0)
	return res.Lease, err
}

func (c *Client) Answered(lease uint64) bool { return c.push.opened(&PushFile{lease: lease}) }
func (c *Client) LeasesOver() int            { return len(c.push.over) }

func (c *Client) Has(lease uint64, f *PushFile) bool {
	c.push.mu.Lock()
	defer c.push.mu.Unlock()
	return c.push.files[lease] == f
}
