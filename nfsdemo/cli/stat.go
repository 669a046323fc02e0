package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// statCmd is the command stat.
func (a *app) statCmd() *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use:   "stat [-L] URL...",
		Short: "Print the attributes of files",
		Example: `  nfsdemo stat nfs+rdma://127.0.0.1/srv/data/notes.txt
  nfsdemo stat --json nfs://fileserver/export | jq .mtime`,
		Args: nArgs(1, -1, "one URL or more"),
		RunE: a.overURLs(func(s *session, ctx context.Context, arg string) error { return s.stat(ctx, arg, follow) }),
	}
	cmd.Flags().BoolVarP(&follow, "dereference", "L", false, "follow a symbolic link")
	cmd.Flags().BoolVar(&a.json, "json", false, "print a JSON object per file")
	a.addClientFlags(cmd)
	return cmd
}

// stat prints one file.
func (s *session) stat(ctx context.Context, arg string, follow bool) error {
	r, err := s.lookup(ctx, arg, !follow)
	if err != nil {
		return err
	}
	target := ""
	if r.n.IsSymlink() {
		if target, err = r.c.ReadLink(ctx, r.n); err != nil {
			return r.fail(err)
		}
	}
	if s.a.json {
		v := newFileJSON(r.n, target)
		v.Handle = fmt.Sprintf("%x", []byte(r.n.FH))
		return s.a.printJSON(v)
	}
	name := r.n.Path
	if target != "" {
		name += " -> " + target
	}
	at, w := &r.n.Attr, s.a.stdout
	fmt.Fprintf(w, "  File: %s\n", quoteName(name))
	fmt.Fprintf(w, "  Size: %-15d Used: %-15d %s\n", at.Size, at.Used, typeOf(r.n.Mode()).name)
	fmt.Fprintf(w, "  FSID: %-15x File: %-15d Links: %d\n", at.FSID, at.FileID, at.Nlink)
	fmt.Fprintf(w, "  Mode: %s %s Uid: %d Gid: %d\n", permissions(r.n), modeString(r.n.Mode()), at.UID, at.GID)
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"Access", at.Atime.Time()}, {"Modify", at.Mtime.Time()}, {"Change", at.Ctime.Time()}} {
		fmt.Fprintf(w, "%s: %s\n", t.name, t.at.Format("2006-01-02 15:04:05.000000000 -0700"))
	}
	_, err = fmt.Fprintf(w, "Handle: %x\n", []byte(r.n.FH))
	return err
}

// permissions formats mode bits in octal.
func permissions(n *nfsclient.Node) string { return fmt.Sprintf("%04o", n.Attr.Mode&0o7777) }
