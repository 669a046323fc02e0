package nfsclient

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// What tests from outside need of the inside: rpcbind's port, where they cannot listen,
// and whether a URL names one; and the export that
// a path leads to, with the list that was seen.

func (c Config) WithRPCBind(port string) *Config { c.rpcbindPort = port; return &c }

func (u URL) WithGiven(given bool) URL { u.given = given; return u }

func (m *Mounter) Attach(ctx context.Context, p string) (string, nfs3.FileHandle, []string, error) {
	return m.attach(ctx, p)
}
