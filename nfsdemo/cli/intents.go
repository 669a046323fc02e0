package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/rpc"
)

// addIntentsFlag adds --intents.
func addIntentsFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "intents", "",
		"keep a journal in this `directory`, so that changes run exactly once, even if this server crashes; made if it does not exist")
}

// checkIntents refuses combinations of --intents with other flags.
func (cfg *serviceConfig) checkIntents() error {
	switch {
	case cfg.intents == "":
		return nil
	case cfg.memory:
		return usagef("--intents with --memory: no file outlives the server; leave one out")
	case cfg.allReadOnly():
		return usagef("--intents with --read-only: there are no changes to run exactly once; leave one out")
	}
	return nil
}

// exactlyOnce puts a journal in front of h, with --intents. When it returns, the calls that a
// crash left open are settled.
func (s *service) exactlyOnce(ctx context.Context, cfg *serviceConfig, h *server.Server) (rpc.Handler, error) {
	if cfg.intents == "" {
		return h, nil
	}
	if slices.ContainsFunc(cfg.exports, func(e server.Export) bool { return insideExport(cfg.intents, &e) }) {
		return nil, usagef("--intents %s is inside the export: clients could change it; name a directory elsewhere", cfg.intents)
	}
	if err := os.MkdirAll(cfg.intents, 0o700); err != nil {
		return nil, fmt.Errorf("--intents %s: %w", cfg.intents, bare(err))
	}
	var err error
	s.once, err = once.OpenDir(cfg.intents, nil)
	switch {
	case errors.Is(err, pmem.ErrLocked):
		return nil, fmt.Errorf("--intents %s: another server has it open: stop that one, or give each export a directory of its own", cfg.intents)
	case commitlog.TailError(err):
		return nil, fmt.Errorf("--intents %s: %w; nfsdemo log verify shows what it holds, and how to mend it", cfg.intents, err)
	case err != nil:
		return nil, fmt.Errorf("--intents %s: %w", cfg.intents, err)
	}
	first, err := once.New(ctx, s.once, h, cfg.config.Logger)
	if err != nil {
		return nil, fmt.Errorf("--intents %s: %w", cfg.intents, err)
	}
	return first, nil
}

// inside reports whether path is dir, or below it.
func inside(path, dir string) bool {
	abs, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(dir, abs)
	return err == nil && filepath.IsLocal(rel)
}

// closeJournal closes the journal, after the last call was served.
func (s *service) closeJournal() error {
	if s.once == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := s.once.Close(ctx); err != nil && !errors.Is(err, once.ErrClosed) {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// printOnce prints what the journal has done, if there is one.
func (s *service) printOnce(w io.Writer) {
	if s.once != nil {
		fmt.Fprintf(w, "nfsdemo: exactly once: %v\n", s.once.Stats())
	}
}
