package cli

import (
	"context"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"
)

// mkdirCmd is the command mkdir.
func (a *app) mkdirCmd() *cobra.Command {
	parents, modeText := false, "0755"
	cmd := &cobra.Command{
		Use:   "mkdir [-p] [-m MODE] URL...",
		Short: "Make directories",
		Example: `  nfsdemo mkdir nfs+rdma://127.0.0.1/srv/data/new
  nfsdemo mkdir -p -m 0700 nfs+rdma://127.0.0.1/srv/data/a/b/c`,
		Args: nArgs(1, -1, "one URL or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			mode, err := strconv.ParseUint(modeText, 8, 12)
			if err != nil {
				return usagef("--mode %q is not an octal number from 0 to 7777", modeText)
			}
			return a.overURLs(func(s *session, ctx context.Context, arg string) error {
				return s.mkdir(ctx, arg, uint32(mode), parents)
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "also make missing parents; an existing directory is no error")
	cmd.Flags().StringVarP(&modeText, "mode", "m", modeText, "permission bits, `octal`")
	a.addRepliesFlag(cmd)
	a.addClientFlags(cmd)
	return cmd
}

// mkdir makes one directory.
func (s *session) mkdir(ctx context.Context, arg string, mode uint32, parents bool) error {
	r, err := s.remote(ctx, arg)
	if err != nil {
		return err
	}
	if parents {
		if _, err := r.c.MkdirAll(ctx, r.u.Path, mode); err != nil {
			return r.fail(err)
		}
		return nil
	}
	if r.u.Path == r.c.Export() {
		return r.fail(fs.ErrExist)
	}
	dir, name, err := r.c.LookupParent(ctx, r.u.Path)
	if err == nil {
		_, err = r.c.Mkdir(ctx, dir, name, mode)
	}
	if err != nil {
		return r.fail(err)
	}
	return nil
}
