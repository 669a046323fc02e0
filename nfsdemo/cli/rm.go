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
	recursive, force, transfers := false, false, 0
	cmd := &cobra.Command{
		Use:   "rm [-r] [-f] URL...",
		Short: "Remove files and directories",
		Long: `rm removes files, and with -r directories and their contents, many names at a time. It removes
symbolic links and does not follow them. The first name that cannot be removed ends the
removal of its argument. With --json it prints an object per argument, with the number of
names that it has removed.`,
		Example: `  nfsdemo rm nfs+rdma://127.0.0.1/srv/data/old.txt
  nfsdemo rm -r nfs+rdma://127.0.0.1/srv/data/build
  nfsdemo rm -r --json nfs+rdma://127.0.0.1/srv/data/build | jq .removed`,
		Args: nArgs(1, -1, "one URL or more"),
		RunE: a.overURLs(func(s *session, ctx context.Context, arg string) error {
			s.cfg.Parallel = transfers
			err := s.rm(ctx, arg, recursive)
			_, export := errors.AsType[*nfsclient.ExportError](err) // of a path that is not exported it is not known that it does not exist
			_, mount := errors.AsType[*nfsclient.MountError](err)
			if force && errors.Is(err, fs.ErrNotExist) && !export && !mount {
				return nil
			}
			return err
		}),
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove directories and their contents")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "ignore files that do not exist")
	cmd.Flags().BoolVar(&a.json, "json", false, "print a JSON object per argument")
	addTransfersFlag(cmd, &transfers, "remove `N` names at a time")
	a.addTreeFlag(cmd)
	a.addRepliesFlag(cmd)
	a.addClientFlags(cmd)
	return cmd
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
		var removed int
		removed, err = r.c.RemoveAll(ctx, dir, n)
		if s.a.json {
			if jerr := s.a.printJSON(removedJSON{Path: n.Path, Removed: removed}); err == nil {
				err = jerr
			}
		}
	}
	if err != nil {
		return argErr(arg, path.Join(dir.Path, name), err)
	}
	return nil
}

// removedJSON is a line of rm --json.
type removedJSON struct {
	Path    string `json:"path"`
	Removed int    `json:"removed"` // names
}
