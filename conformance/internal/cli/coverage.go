package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/coverage"
)

func coverageCmd() *cobra.Command {
	var spec, root string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "coverage",
		Short: "List the rules of the documents, the tests that prove them, and the rules of the judge",
		Long: `coverage reads the tests of a checkout and lists each ordering rule with the tests
tagged with it; then each document sentence by
sentence, with the rules by which the judge checks it, or the reason why a capture
cannot show it. A test is tagged by the comment

  // spec: rdmap 7.4 response

or, in a table, by an element's field spec: "rdmap 7.3 F-AW".

Exit status: 0 done; 1 a rule has no test, a tag names no rule, or a sentence has
neither rule nor reason; 2 bad command line.`,
		Example: `  conformance coverage
  conformance coverage --spec mpa
  conformance coverage --json | jq '.[].sentences[]? | select(.reason)'`,
		Args: wantArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			reports, err := coverageReports(spec, root)
			if err != nil {
				return err
			}
			return printReports(cmd, reports, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&spec, "spec", "", "only this document: "+strings.Join(coverage.Specs(), ", "))
	flags.BoolVar(&asJSON, "json", false, "print an array of reports, one per document")
	rootFlag(cmd, &root)
	return cmd
}

func coverageReports(spec, root string) ([]*coverage.Report, error) {
	specs := coverage.Specs()
	if spec != "" {
		if !slices.Contains(specs, spec) {
			return nil, usagef("--spec %q: want %s", spec, strings.Join(specs, " or "))
		}
		specs = []string{spec}
	}
	tags, err := scan(root)
	if err != nil {
		return nil, err
	}
	var reports []*coverage.Report
	for _, s := range specs {
		reports = append(reports, coverage.New(s, tags))
	}
	return reports, nil
}

func printReports(cmd *cobra.Command, reports []*coverage.Report, asJSON bool) error {
	if asJSON {
		if err := json.NewEncoder(cmd.OutOrStdout()).Encode(reports); err != nil {
			return err
		}
	}
	var errs []error
	for _, r := range reports {
		if !asJSON {
			if err := r.Print(cmd.OutOrStdout()); err != nil {
				return err
			}
		}
		errs = append(errs, r.Err())
	}
	return errors.Join(errs...)
}

func rootFlag(cmd *cobra.Command, root *string) {
	cmd.Flags().StringVar(root, "root", "", "`DIR` of the checkout; by default the one around the working directory")
}

// scan reads the tags of the checkout at root or, if root is empty, around the working directory.
func scan(root string) ([]coverage.Tag, error) {
	dir := root
	if dir == "" {
		var err error
		if dir, err = checkout(); err != nil {
			return nil, err
		}
	} else if !isCheckout(dir) {
		return nil, usagef("--root %s: no checkout of stag", dir)
	}
	return coverage.Scan(os.DirFS(dir))
}

// checkout returns the nearest directory upwards that has the module's go.mod.
func checkout() (string, error) {
	wd, err := os.Getwd()
	for dir := wd; err == nil; dir = filepath.Dir(dir) {
		if isCheckout(dir) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", usagef("%s is not in a checkout of stag: run this in one, or name one with --root", wd)
		}
	}
	return "", err
}

func isCheckout(dir string) bool {
	mod, _ := os.ReadFile(filepath.Join(dir, "go.mod"))
	return strings.HasPrefix(string(mod), "module github.com/stag-rdma/stag\n")
}
