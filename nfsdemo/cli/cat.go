package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// errIsDir reports a directory where a file is needed.
var errIsDir = errors.New("is a directory")

// errNotRegular reports a device, pipe or socket where a file is needed.
var errNotRegular = errors.New("is not a regular file")

// catCmd is the command cat.
func (a *app) catCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat URL...",
		Short: "Print files",
		Long:  "cat copies files to standard output, one after the other. It reads ahead.",
		Example: `  nfsdemo cat nfs+rdma://127.0.0.1/srv/data/notes.txt
  nfsdemo cat nfs+rdma://127.0.0.1/srv/data/big.tar | tar t`,
		Args: nArgs(1, -1, "one URL or more"),
		RunE: a.overURLs((*session).cat),
	}
	a.addClientFlags(cmd)
	return cmd
}

// cat prints one file.
func (s *session) cat(ctx context.Context, arg string) error {
	r, err := s.lookup(ctx, arg, false)
	if err != nil {
		return err
	}
	switch { // READ refuses them
	case r.n.IsDir():
		return r.fail(errIsDir)
	case !r.n.IsRegular():
		return r.fail(errNotRegular)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := nfsclient.NewOrderedWriter(ctx, s.a.stdout, 0)
	defer w.Close()
	done, err := r.c.ReadTo(ctx, r.n, w, 0, nil)
	if err == nil && done < r.n.Size() {
		err = errChanged
	}
	if err != nil {
		return r.fail(err)
	}
	return nil
}
