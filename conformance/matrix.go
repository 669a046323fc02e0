package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/internal/cliout"
)

// matrixFlags are the flags of matrix.
type matrixFlags struct {
	servers, clients, about []string
	behind, only, skip      string
	resume                  bool
}

func matrixCmd() *cobra.Command {
	var f matrixFlags
	cmd := &cobra.Command{
		Use:   "matrix DIR",
		Short: "Probe several peers, and write one page that compares them",
		Long: `matrix plays the cases of probe to servers, and those of probe --listen to clients, and writes
the column of each into DIR: NAME.json, and of the cells that are not ok a capture, NAME.pcapng.gz.
DIR/index.html then has a row for each case and a column for each peer that is in DIR, also
from other runs: peers need not run on one machine, and without any the page is only written again.

With --resume, cells that are in DIR are not played again: so it goes on with a peer that had to
be started anew. The cases of load are left out, unless --only names them.

Exit status: 0 the page was written, whatever the peers do; 1 a peer could not be probed to
its end, and the page says so; 2 bad command line.`,
		Example: `  conformance matrix --server stag=127.0.0.1:20049 --about 'stag=v0.9, Linux 6.12' dist/matrix
  conformance matrix --behind 127.0.0.1:20049 --client 'cat=nfsdemo cat nfs+rdma://$STAG_ADDRESS/srv/f >/dev/null' out`,
		Args: wantArgs(1, "the directory for the page"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.servers, "server", nil, "a server, `NAME=HOST:PORT`; can be repeated")
	flags.StringArrayVar(&f.clients, "client", nil, "a client, `NAME=COMMAND`, as probe --listen --run; can be repeated")
	flags.StringVar(&f.behind, "behind", "", "the good server behind the clients, `HOST:PORT`")
	flags.StringArrayVar(&f.about, "about", nil, "what a peer is, `NAME=TEXT`: version, system; can be repeated")
	flags.BoolVar(&f.resume, "resume", false, "keep the cells that DIR has")
	flags.StringVar(&f.only, "only", "", "play only the cases whose names match this `REGEXP`")
	flags.StringVar(&f.skip, "skip", "^load/", "leave out the cases whose names match this `REGEXP`")
	return cmd
}

// peers checks the flags.
func (f *matrixFlags) peers() (all []*Peer, err error) {
	about := make(map[string]string)
	for _, s := range f.about {
		name, text, _ := strings.Cut(s, "=")
		about[name] = text
	}
	seen := make(map[string]bool)
	add := func(s string, set func(p *Peer, value string)) {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" || value == "" || seen[name] {
			err = usagef("%q: want a name of its own, =, and an address or a command", s)
			return
		}
		seen[name] = true
		p := &Peer{Name: name, About: about[name], Date: time.Now().UTC().Format(time.DateOnly), Resume: f.resume}
		set(p, value)
		all = append(all, p)
	}
	for _, s := range f.servers {
		add(s, func(p *Peer, v string) { p.Server = v })
	}
	for _, s := range f.clients {
		add(s, func(p *Peer, v string) {
			p.Behind = f.behind
			p.Client = func(ctx context.Context, addr string) probe.ClientRun { return runClient(ctx, v, addr) }
		})
	}
	if err == nil && len(f.clients) > 0 && f.behind == "" {
		err = usagef("--client wants --behind HOST:PORT, a good server")
	}
	return all, err
}

func (f *matrixFlags) run(cmd *cobra.Command, dir string) error {
	peers, err := f.peers()
	if err != nil {
		return err
	}
	only, err := pattern("--only", f.only)
	if err != nil {
		return err
	}
	skip, err := pattern("--skip", f.skip)
	if err != nil {
		return err
	}
	if f.only != "" && !cmd.Flags().Changed("skip") {
		skip = nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if old, err := filepath.Glob(filepath.Join(dir, "*.json")); err == nil && len(old)+len(peers) == 0 {
		return usagef("%s has no column: name a peer with --server or --client", dir)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var failed []error
	for _, p := range peers {
		p.Only, p.Skip = only, skip
		counts := make(map[string]int)
		err := playMatrix(ctx, dir, p, func(c *Cell) { counts[c.Verdict]++ })
		if errors.Is(err, errName) {
			return usagef("%v", err)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.Name, err))
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d ok, %d tolerated, %d fail\n", p.Name, counts["ok"], counts["tolerated"], counts["fails"])
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	about := "played and judged by " + cmd.Root().Name() + " " + cliout.Version()
	failed = append(failed, create(filepath.Join(dir, "index.html"), func(w io.Writer) error { return writeMatrix(w, dir, "RPC-over-RDMA conformance", about) }))
	return errors.Join(failed...)
}
