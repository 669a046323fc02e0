package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// mvCmd is the command mv.
func (a *app) mvCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mv URL... URL",
		Short: "Rename files and directories",
		Long:  "mv renames within one export. The last URL is the new name, or a directory to move into.",
		Example: `  nfsdemo mv nfs+rdma://127.0.0.1/srv/data/a nfs+rdma://127.0.0.1/srv/data/b
  nfsdemo mv nfs+rdma://127.0.0.1/srv/data/a nfs+rdma://127.0.0.1/srv/data/dir/`,
		Args: nArgs(2, -1, "two URLs or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.session()
			if err != nil {
				return err
			}
			defer s.close()
			return s.mvAll(cmd.Context(), args)
		},
	}
	a.addRepliesFlag(cmd)
	a.addClientFlags(cmd)
	return cmd
}

// mvAll moves all but the last argument to the last.
func (s *session) mvAll(ctx context.Context, args []string) error {
	from, arg := args[:len(args)-1], args[len(args)-1]
	for _, other := range args {
		if _, err := nfsclient.ParseURL(other); err != nil {
			return err
		}
	}
	to, err := s.remote(ctx, arg)
	if err != nil {
		return err
	}
	dir, name, err := s.place(ctx, to, len(from) > 1)
	if err != nil {
		return err
	}
	return s.a.each(ctx, from, func(arg string) error { return s.mv(ctx, arg, to, dir, name) })
}

// place finds the directory that a destination means, and the name in it; "" means the name of
// the source.
func (s *session) place(ctx context.Context, to *remote, several bool) (dir *nfsclient.Node, name string, err error) {
	n, err := to.c.Lookup(ctx, to.u.Path)
	switch {
	case err == nil && n.IsDir():
		return n, "", nil
	case err == nil && (several || to.u.DirHint):
		return nil, "", to.fail(errNotDir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, "", to.fail(err)
	case err != nil && (several || to.u.DirHint):
		return nil, "", to.fail(errNoDir)
	}
	if dir, name, err = to.c.LookupParent(ctx, to.u.Path); err != nil {
		return nil, "", to.fail(err)
	}
	return dir, name, nil
}

// Errors about destinations.
var (
	errNotDir = errors.New("not a directory")
	errNoDir  = errors.New("no such directory")
)

// mv moves one name.
func (s *session) mv(ctx context.Context, arg string, to *remote, dir *nfsclient.Node, name string) error {
	r, err := s.remote(ctx, arg)
	switch {
	case err != nil:
		return err
	case r.c != to.c:
		return r.fail(errors.New("mv works within one export only: use cp and rm"))
	case r.u.Path == r.c.Export():
		return r.fail(errIsExport)
	}
	from, old, err := r.c.LookupParent(ctx, r.u.Path)
	if err != nil {
		return r.fail(err)
	}
	if name == "" {
		name = old
	}
	if err := r.c.Rename(ctx, from, old, dir, name); err != nil {
		return argErr(arg, path.Join(from.Path, old), fmt.Errorf("cannot move to %s: %w", path.Join(dir.Path, name), bare(err)))
	}
	return nil
}

// bare strips the operation and the path from an error.
func bare(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
