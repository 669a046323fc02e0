package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/once"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// addIntentsFlag adds --intents.
func addIntentsFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "intents", "",
		"`directory` of a journal by which changes run exactly once, also across a crash of this server; made if it is not there")
}

// checkIntents says what is wrong with --intents beside the other flags.
func (cfg *serviceConfig) checkIntents() error {
	switch {
	case cfg.intents == "":
		return nil
	case cfg.memory:
		return usagef("--intents with --memory: nothing of it outlives the server")
	case cfg.readOnly:
		return usagef("--intents with --read-only: there is nothing to be run once")
	}
	return nil
}

// exactlyOnce puts a journal in front of h, if there is to be one: what a crash has left
// open is settled when it returns.
func (s *service) exactlyOnce(ctx context.Context, cfg *serviceConfig, h *server.Server) (transport.Handler, error) {
	if cfg.intents == "" {
		return h, nil
	}
	if inside(cfg.intents, s.path) {
		return nil, usagef("--intents %s is in the export: clients could change it; name a directory elsewhere", cfg.intents)
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
		return nil, fmt.Errorf("--intents %s: %w; what it holds, and how it can be mended, says nfsdemo log verify", cfg.intents, err)
	case err != nil:
		return nil, fmt.Errorf("--intents %s: %w", cfg.intents, err)
	}
	first, err := once.New(ctx, s.once, h, cfg.config.Logger)
	if err != nil {
		return nil, fmt.Errorf("--intents %s: %w", cfg.intents, err)
	}
	return first, nil
}

// inside says whether a path is that of dir, or below it.
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

// closeJournal closes it when nobody is served any more.
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

// printOnce says what the journal has done, if there is one.
func (s *service) printOnce(w io.Writer) {
	if s.once != nil {
		fmt.Fprintf(w, "nfsdemo: exactly once: %v\n", s.once.Stats())
	}
}
