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

// errIsExport reports an attempt to remove or move the export.
var errIsExport = errors.New("is the export itself")

// rmCmd is the command rm.
func (a *app) rmCmd() *cobra.Command {
	recursive, force := false, false
	cmd := &cobra.Command{
		Use:   "rm [-r] [-f] URL...",
		Short: "Remove files and directories",
		Long:  "rm removes files, and with -r directories and their contents. It removes symbolic links and does not follow them.",
		Example: `  nfsdemo rm nfs+rdma://127.0.0.1/srv/data/old.txt
  nfsdemo rm -r nfs+rdma://127.0.0.1/srv/data/build`,
		Args: nArgs(1, -1, "one URL or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.session()
			if err != nil {
				return err
			}
			defer s.close()
			return a.each(cmd.Context(), args, func(arg string) error {
				err := s.rm(cmd.Context(), arg, recursive)
				if force && errors.Is(err, fs.ErrNotExist) && !isExportError(err) {
					return nil
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove directories and their contents")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "ignore files that do not exist")
	a.addTreeFlag(cmd)
	a.addRepliesFlag(cmd)
	a.addClientFlags(cmd)
	return cmd
}

// isExportError reports whether err says that a path is not exported, which is more than that it
// does not exist.
func isExportError(err error) bool {
	_, export := errors.AsType[*nfsclient.ExportError](err)
	_, mount := errors.AsType[*nfsclient.MountError](err)
	return export || mount
}

// rm removes one name.
func (s *session) rm(ctx context.Context, arg string, recursive bool) error {
	r, err := s.remote(ctx, arg)
	if err != nil {
		return err
	}
	if r.u.Path == r.c.Export() {
		return r.fail(errIsExport)
	}
	dir, name, err := r.c.LookupParent(ctx, r.u.Path)
	if err != nil {
		return r.fail(err)
	}
	n, err := r.c.Child(ctx, dir, name)
	switch {
	case err != nil:
	case n.IsDir() && !recursive:
		err = fmt.Errorf("%w (use rm -r)", errIsDir)
	default:
		_, err = r.c.RemoveAll(ctx, dir, n)
	}
	if err != nil {
		return argErr(arg, path.Join(dir.Path, name), err)
	}
	return nil
}
