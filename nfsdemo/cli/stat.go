package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
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
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.session()
			if err != nil {
				return err
			}
			defer s.close()
			return a.each(cmd.Context(), args, func(arg string) error { return s.stat(cmd.Context(), arg, follow) })
		},
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
	fmt.Fprintf(w, "  Size: %-15d Used: %-15d %s\n", at.Size, at.Used, typeName(r.n.Mode()))
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

// spaceJSON is the output of df --json.
type spaceJSON struct {
	Export     string `json:"export"`
	TotalBytes uint64 `json:"total_bytes"`
	FreeBytes  uint64 `json:"free_bytes"`
	AvailBytes uint64 `json:"avail_bytes"`
	TotalFiles uint64 `json:"total_files"`
	FreeFiles  uint64 `json:"free_files"`
	AvailFiles uint64 `json:"avail_files"`
}

// dfCmd is the command df.
func (a *app) dfCmd() *cobra.Command {
	inodes := false
	cmd := &cobra.Command{
		Use:   "df [-i] URL...",
		Short: "Print the free space of exports",
		Example: `  nfsdemo df nfs+rdma://127.0.0.1/srv/data
  nfsdemo df --json nfs://fileserver/export | jq .avail_bytes`,
		Args: nArgs(1, -1, "one URL or more"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.df(cmd.Context(), args, inodes) },
	}
	cmd.Flags().BoolVarP(&inodes, "inodes", "i", false, "count files instead of octets")
	cmd.Flags().BoolVar(&a.json, "json", false, "print a JSON object per URL")
	a.addClientFlags(cmd)
	return cmd
}

// df prints a table of the arguments.
func (a *app) df(ctx context.Context, args []string, inodes bool) error {
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.close()
	rows := [][]string{{"Export", "Size", "Used", "Avail", "Use%", "URL"}}
	if inodes {
		rows = [][]string{{"Export", "Files", "Used", "Free", "Use%", "URL"}}
	}
	err = a.each(ctx, args, func(arg string) error {
		r, err := s.lookup(ctx, arg, false)
		if err != nil {
			return err
		}
		fs, err := r.c.StatFS(ctx, r.n)
		if err != nil {
			return r.fail(err)
		}
		if a.json {
			return a.printJSON(spaceJSON{
				r.c.Export(), fs.TotalBytes, fs.FreeBytes, fs.AvailBytes, fs.TotalFiles, fs.FreeFiles, fs.AvailFiles,
			})
		}
		rows = append(rows, spaceRow(r, fs, inodes))
		return nil
	})
	if !a.json && len(rows) > 1 {
		printColumns(a.stdout, rows, 1)
	}
	return err
}

// spaceRow is a line of df.
func spaceRow(r *remote, fs *nfs3.FSStatRes, inodes bool) []string {
	total, free, avail, show := fs.TotalBytes, fs.FreeBytes, fs.AvailBytes, octets
	if inodes {
		total, free, avail = fs.TotalFiles, fs.FreeFiles, fs.AvailFiles
		show = func(n uint64) string { return fmt.Sprint(n) }
	}
	used := total - min(free, total)
	percent := "-"
	if used+avail > 0 {
		percent = fmt.Sprintf("%d%%", usedPercent(used, avail))
	}
	return []string{r.c.Export(), show(total), show(used), show(avail), percent, r.arg}
}

// usedPercent is the used share of the usable space, in percent, rounded up.
func usedPercent(used, avail uint64) int {
	share := float64(used) / (float64(used) + float64(avail)) * 100
	return int(share + 0.999999)
}
