package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/internal/bench"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// benchNFSFlags are the flags of bench nfs.
type benchNFSFlags struct {
	opt   bench.NFSOptions
	dir   string
	plot  string
	own   bool
	pids  []int
	procs int
	quick bool
}

// benchNFSCmd is the command bench nfs.
func (a *app) benchNFSCmd() *cobra.Command {
	f := &benchNFSFlags{}
	cmd := &cobra.Command{
		Use:   "nfs [[NAME=]URL...]",
		Short: "READ, WRITE and GETATTR over RDMA, against TCP",
		Long: `nfs starts a server in another process, which serves a new directory over RDMA, over
RDMA without the CRC of MPA, and over TCP, and puts the same loads on each of them and on
the servers of the URLs, in turn, round by round. All own sockets use the congestion
control reno: give that to other servers too.

It prints the ratio of each to the best one over TCP, medians with the least and the
largest; the processor time and context switches of a call at both ends; and the
latencies of calls beside a bulk stream. Files of 64 MiB named bench.N are written in the
exports, and stay in those of URLs. With --own=false only the URLs are measured; the first
one is the base if none is over TCP.

Other programs on the machine distort the figures. --procs 1 repeats best.`,
		Example: `  nfsdemo bench nfs --dir /dev/shm
  nfsdemo bench nfs --only 'WRITE 64K' --procs 1 --json
  nfsdemo bench nfs 'ganesha=nfs://127.0.0.1:2049/srv/data?mountport=20048' --pid 4711
  nfsdemo bench nfs --own=false nfs+rdma://192.0.2.5/srv/data nfs://192.0.2.5/srv/data`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.benchNFS(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", os.TempDir(), "`directory` on the file system to measure")
	flags.IntVar(&f.opt.Rounds, "rounds", 9, "rounds of each row")
	flags.DurationVar(&f.opt.Length, "length", 300*time.Millisecond, "`time` of a round")
	flags.StringVar(&f.opt.Only, "only", "", "run only the rows whose name contains this `text`")
	flags.IntVar(&f.procs, "procs", 0, "processors of client and own server (GOMAXPROCS); 0: as usual")
	flags.BoolVar(&f.own, "own", true, "measure own servers")
	flags.IntSliceVar(&f.pids, "pid", nil, "process `ids` of the servers of the URLs, on this machine, for their costs")
	flags.BoolVar(&f.quick, "quick", false, "short rounds, to check that it runs")
	flags.BoolVar(&a.json, "json", false, "print all figures of all rounds as JSON")
	flags.StringVar(&f.plot, "plot", "", "draw the ratios into this `file` too (SVG)")
	return cmd
}

func (a *app) benchNFS(cmd *cobra.Command, f *benchNFSFlags, args []string) (err error) {
	if f.opt.Rounds < 1 {
		return usagef("--rounds %d: want at least 1", f.opt.Rounds)
	}
	if f.opt.Length <= 0 {
		return usagef("--length %v: want more than 0", f.opt.Length)
	}
	if f.quick {
		f.opt.Length, f.opt.FileSize = 20*time.Millisecond, 4<<20
	}
	if err := plotDir(f.plot); err != nil {
		return err
	}
	others, err := f.columns(args)
	if err != nil {
		return err
	}
	if f.procs > 0 {
		runtime.GOMAXPROCS(f.procs)
		if err := os.Setenv("GOMAXPROCS", strconv.Itoa(f.procs)); err != nil { // of the other process
			return err
		}
	}
	var columns []bench.Column
	if f.own {
		dir, remove, err := measure.Scratch(f.dir, "nfsdemo-bench-")
		if err != nil {
			return fmt.Errorf("--dir %s: %w", f.dir, bare(err))
		}
		defer func() { err = errors.Join(err, remove()) }()
		var p bench.NFSPeer
		stop, err := measure.StartPeer(cmd.Context(), &p, a.stderr, "bench", "nfs-peer", dir)
		if err != nil {
			return err
		}
		defer stop()
		if columns, err = p.Columns(); err != nil {
			return err
		}
	}
	if columns = append(columns, others...); len(columns) == 0 {
		return usagef("bench nfs --own=false: nothing to measure, give URLs")
	}
	f.opt.Progress = a.benchProgress()
	t, err := measure.Until(cmd.Context(), func() (*measure.Table, error) { return bench.NFS(columns, &f.opt) })
	if errors.Is(err, measure.ErrNoCase) {
		return usagef("--only: %v", err)
	}
	if err != nil {
		return err
	}
	if f.plot != "" {
		if err := os.WriteFile(f.plot, []byte(t.Bars().SVG()), 0o644); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(t)
	}
	t.Print(a.stdout)
	return nil
}

// plotDir refuses a file that cannot be made, before minutes have passed.
func plotDir(file string) error {
	if fi, err := os.Stat(filepath.Dir(file)); file != "" && (err != nil || !fi.IsDir()) {
		return usagef("--plot %s: there is no directory %s; make it, or name another file", file, filepath.Dir(file))
	}
	return nil
}

// columns returns the servers of [NAME=]URL.
func (f *benchNFSFlags) columns(args []string) (cs []bench.Column, err error) {
	if len(f.pids) > len(args) {
		return nil, usagef("--pid: %d processes for %d URLs", len(f.pids), len(args))
	}
	for i, arg := range args {
		c := bench.Column{Name: arg}
		if name, at, named := strings.Cut(arg, "="); named && !strings.Contains(name, "://") {
			c.Name, arg = name, at
		}
		if c.URL, err = nfsclient.ParseURL(arg); err != nil {
			return nil, err
		}
		if i < len(f.pids) {
			c.PID = f.pids[i]
		}
		cs = append(cs, c)
	}
	return cs, nil
}

// benchNFSPeerCmd is the server of bench nfs.
func (a *app) benchNFSPeerCmd() *cobra.Command {
	return &cobra.Command{
		Use: "nfs-peer DIR", Short: "The server of bench nfs", Args: nArgs(1, 1, "a directory"), Hidden: true,
		RunE: func(_ *cobra.Command, args []string) (err error) {
			spareProcs()
			p, stop, err := bench.ServeNFS(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stop()) }()
			return measure.ServePeer(&p, a.stdin, a.stdout)
		},
	}
}
