package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/bench"
)

// figuresSuites are the benchmarks whose figures the documents show.
var figuresSuites = []string{"engine", "rpc", "scale", "commit", "push", "nfs", "grow"}

// figuresDocs have marks for tables.
var figuresDocs = []string{"README.md", "docs/performance.md"}

// figuresCmd is bench figures.
func (f *benchFlags) figuresCmd() *cobra.Command {
	var host string
	cmd := &cobra.Command{
		Use: "figures [SUITE]", Short: "Make the tables and charts of the documents from docs/figures.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(figuresSuites, args[0]) {
				return usagef("figures %s: want one of %s, or nothing", strings.Join(args, " "), strings.Join(figuresSuites, ", "))
			}
			return nil
		},
		Long: `figures makes the tables of README.md and docs/performance.md, and the charts beside it, from
docs/figures.json. With SUITE it first puts in what that benchmark has printed with --json, from
standard input. Run it at the root of a clone.`,
		Example: "  conformance bench figures\n  conformance bench engine --json | conformance bench figures engine",
		RunE: func(cmd *cobra.Command, args []string) error {
			var r bench.Report
			if err := readReport(&r); err != nil {
				return err
			}
			if len(args) == 1 {
				if err := putSuite(&r, args[0], host, cmd.InOrStdin()); err != nil {
					return err
				}
			}
			return writeDocs(&r)
		},
	}
	cmd.Flags().StringVar(&host, "host", "", "`WORDS` for the machine that was measured (default: its processor)")
	return cmd
}

const reportFile = "docs/figures.json"

func readReport(r *bench.Report) error {
	b, err := os.ReadFile(reportFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, r); err != nil {
		return fmt.Errorf("%s: %w", reportFile, err)
	}
	return nil
}

func putSuite(r *bench.Report, name, host string, in io.Reader) error {
	printed, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if host == "" {
		host = thisHost()
	}
	if err := r.Put(name, host, time.Now().UTC().Format(time.DateOnly), printed); err != nil {
		return fmt.Errorf("standard input is not what bench %s --json prints: %w", name, err)
	}
	return nil
}

// writeDocs writes r and what is made from it.
func writeDocs(r *bench.Report) error {
	b, err := r.JSON()
	if err != nil {
		return err
	}
	if err := os.WriteFile(reportFile, b, 0o644); err != nil {
		return err
	}
	for name, svg := range r.Charts() {
		if err := os.WriteFile(filepath.Join("docs", name), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	var failed error
	for _, name := range figuresDocs {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		made, err := r.Fill(string(b))
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if err := os.WriteFile(name, []byte(made), 0o644); err != nil {
			return err
		}
	}
	return failed
}

// thisHost names the processors of this machine.
func thisHost() string {
	model := runtime.GOOS + "/" + runtime.GOARCH
	b, _ := os.ReadFile("/proc/cpuinfo") // none on other systems
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s, %d processors", model, runtime.NumCPU())
}
