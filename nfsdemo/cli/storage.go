package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/backend"
)

// Storage is what a program serves that is neither a directory nor memory.
type Storage struct {
	// Program is the name of the program, Short what it is in a line.
	Program, Short string
	// Arg is what the argument of its command serve is called, Long and Example are the help of the command.
	Arg, Long, Example string
	// Flags, if not nil, adds flags to serve.
	Flags func(*cobra.Command)
	// Open opens the volume that the argument names, after the flags were parsed. Its errors are printed as they are.
	Open func(ctx context.Context, arg string) (Volume, error)
	// Commands are its other commands.
	Commands []*cobra.Command
}

// Volume is what Storage.Open has opened.
type Volume interface {
	// Export opens the directory with a path, which is absolute and clean, as an export. The caller closes it before
	// the volume.
	Export(path string) (backend.FS, error)
	// Close makes everything durable.
	Close() error
}

// MainOf is [Main] for a program that serves st. Its command serve has the flags of nfsdemo serve, except those that
// say where a directory and its logs are: "serve ARG [flags]".
func MainOf(st *Storage, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{storage: st, stdin: stdin, stdout: stdout, stderr: stderr}).main(args)
}

// name is the name of the program.
func (a *app) name() string {
	switch {
	case a.storage != nil:
		return a.storage.Program
	case a.card != nil:
		return a.card.Program
	}
	return "nfsdemo"
}

// storageRoot builds the tree of commands of a program that serves a Storage.
func (a *app) storageRoot() *cobra.Command {
	st, f := a.storage, &serveFlags{}
	cmd := &cobra.Command{Use: st.Program, Short: st.Short, Example: st.Example}
	a.frame(cmd)
	serve := &cobra.Command{
		Use: "serve " + st.Arg, Short: "Serve the files over NFS/RDMA", Long: st.Long, Example: st.Example,
		Args: nArgs(1, 1, "one argument, "+st.Arg),
		RunE: func(cmd *cobra.Command, args []string) error { return a.serveStorage(cmd.Context(), args[0], f) },
	}
	flags := serve.Flags()
	flags.StringArrayVar(&f.exports.dirs, "export", []string{"/"}, "`directory` of the volume to serve, perhaps with options as in exports(5): /DIR,ro,client=192.0.2.0/24; can be repeated")
	flags.StringVar(&f.service.state, "state", "", "`directory` for the names of clients that hold locks; \"\": $STATE_DIRECTORY, or nfsdemo in $XDG_STATE_HOME, /var/lib (root) or ~/.local/state")
	a.addServeFlags(serve, f)
	if st.Flags != nil {
		st.Flags(serve)
	}
	cmd.AddCommand(serve, a.exportsCmd())
	cmd.AddCommand(st.Commands...)
	return cmd
}

// serveStorage serves a volume until it is interrupted.
func (a *app) serveStorage(ctx context.Context, arg string, f *serveFlags) error {
	cfg, err := f.config(a)
	if err != nil {
		return err
	}
	spareProcs()
	if cfg.volume, err = a.storage.Open(ctx, arg); err != nil {
		return err
	}
	return errors.Join(a.serveUntil(ctx, cfg, f), cfg.volume.Close())
}
