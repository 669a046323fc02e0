package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

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
		printColumns(a.stdout, rows, 1, true, " ")
	}
	return err
}

// spaceRow is a line of df.
func spaceRow(r *remote, fs *nfs3.FSStatRes, inodes bool) []string {
	total, free, avail, show := fs.TotalBytes, fs.FreeBytes, fs.AvailBytes, ops.Octets[uint64]
	if inodes {
		total, free, avail = fs.TotalFiles, fs.FreeFiles, fs.AvailFiles
		show = func(n uint64) string { return fmt.Sprint(n) }
	}
	used := total - min(free, total)
	percent := "-"
	if used+avail > 0 {
		share := float64(used) / (float64(used) + float64(avail)) * 100 // of what can be used
		percent = fmt.Sprintf("%d%%", int(share+0.999999))              // rounded up
	}
	return []string{r.c.Export(), show(total), show(used), show(avail), percent, r.arg}
}
