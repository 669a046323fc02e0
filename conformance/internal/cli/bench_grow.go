package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/bench"
)

// growCmd is bench grow.
func (f *benchFlags) growCmd() *cobra.Command {
	var doc string
	cmd := &cobra.Command{
		Use: "grow", Short: "How cost grows with messages, FPDUs and connections (Linux)", Args: wantArgs(0, ""),
		Long: `grow measures throughput and processor time per GiB by size of message,
size of FPDU and number of connections, and prints tables. With --doc it puts them
between two marks in a Markdown file and writes the charts beside it.`,
		Example: `  conformance bench grow
  conformance bench grow --doc docs/performance.md`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.grow(cmd, doc) },
	}
	cmd.Flags().StringVar(&doc, "doc", "", "put the tables into `FILE` and the charts beside it")
	return cmd
}

func (f *benchFlags) grow(cmd *cobra.Command, doc string) error {
	p, stop, err := startScalePeer(cmd.Context())
	if err != nil {
		return err
	}
	defer stop()
	gs, err := bench.Grow(p, f.quick, progress(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(gs)
	}
	var text strings.Builder
	for i := range gs {
		image := "performance-" + gs[i].Name + ".svg"
		fmt.Fprintf(&text, "%s\n", gs[i].Markdown(image))
		if doc == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(doc), image), []byte(gs[i].SVG()), 0o644); err != nil {
			return err
		}
	}
	if doc == "" {
		_, err = fmt.Fprint(cmd.OutOrStdout(), text.String())
		return err
	}
	old, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	made, err := bench.Insert(string(old), text.String())
	if err != nil {
		return fmt.Errorf("%s: %w", doc, err)
	}
	return os.WriteFile(doc, []byte(made), 0o644)
}
