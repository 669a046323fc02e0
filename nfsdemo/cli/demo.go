package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// demoSizes are the sizes of the files that demo writes, in octets: around the inline threshold,
// pages and blocks.
var demoSizes = []int{0, 1, 4095, 4096, 4097, 65537, 1<<20 + 3, 16 << 20, 64 << 20}

// demo is one run of the demonstration.
type demo struct {
	a       *app
	profile profile
	tmp     string // holds dir, and the state of the server
	dir     string // served
	svc     *service
	c       *nfsclient.Client
	root    *nfsclient.Node
	rows    []stepJSON
	data    nfsclient.Memory // random content; files are prefixes of it
	back    nfsclient.Memory // what is read back
}

// stepJSON is a line of the table.
type stepJSON struct {
	Step      string  `json:"step"`
	Calls     uint64  `json:"calls"`
	RDMARead  uint64  `json:"rdma_read"`  // octets of chunks that the server pulled
	RDMAWrite uint64  `json:"rdma_write"` // octets of chunks that the server pushed
	Inline    uint64  `json:"inline"`     // octets of Sends, both ways
	Credits   int     `json:"credits"`
	Seconds   float64 `json:"seconds"`
}

// demoCmd is the command demo.
func (a *app) demoCmd() *cobra.Command {
	most, rules := 0, rfc8166
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show both ends in one process",
		Long: `demo starts a server of a temporary directory and a client, which speak NFSv3 over
RPC-over-RDMA on loopback. It needs no privileges and leaves nothing behind. It writes
files of many sizes, reads them back and compares, lists, renames and removes, and
prints what each step moved, and how: pulled by RDMA Read (writes), pushed by RDMA
Write (reads) or inline in Sends.`,
		Example: `  nfsdemo demo
  nfsdemo demo --json | jq -s 'map(.calls) | add'`,
		Args: nArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 0 {
				return usagef("--max %d: want 0 or more", most)
			}
			d := &demo{a: a, profile: rules}
			return d.run(cmd.Context(), most)
		},
	}
	addProfileFlag(cmd, &rules)
	cmd.Flags().BoolVar(&a.json, "json", false, "print a JSON object per step")
	cmd.Flags().IntVar(&most, "max", demoSizes[len(demoSizes)-1], "skip files with more `octets`")
	return cmd
}

// run sets both ends up, takes the steps and prints the table.
func (d *demo) run(ctx context.Context, most int) (err error) {
	start := time.Now()
	defer func() {
		if cerr := d.tearDown(); err == nil {
			err = cerr
		}
	}()
	if err := d.setUp(ctx); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	steps := d.steps(most)
	for _, s := range steps {
		if err := d.take(ctx, s); err != nil {
			d.print()
			return fmt.Errorf("demo failed at %q: %w", s.name, err)
		}
	}
	d.print()
	if !d.a.json {
		fmt.Fprintf(d.a.stdout, "all %d steps passed in %s: NFSv3 over RPC-over-RDMA over iWARP on %s\n",
			len(steps), ops.Took(time.Since(start)), d.svc.rdma.Addr())
	}
	return nil
}

// setUp starts the server on a temporary directory and mounts it.
func (d *demo) setUp(ctx context.Context) (err error) {
	if d.tmp, err = os.MkdirTemp("", "nfsdemo-"); err != nil {
		return err
	}
	d.dir = filepath.Join(d.tmp, "export")
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return err
	}
	log, err := d.a.logger()
	if err != nil {
		return err
	}
	cfg := &transport.Config{Logger: log, RFC5666: d.profile.settings()}
	d.svc, err = newService(ctx, &serviceConfig{exports: []exports.Export{{Export: server.Export{Path: d.dir, Squash: server.SquashNone}}}, state: filepath.Join(d.tmp, "state"), rdma: "127.0.0.1:0", config: cfg})
	if err != nil {
		return err
	}
	return d.take(ctx, step{"connect and mount", func(ctx context.Context) error {
		u, err := nfsclient.ParseURL("nfs+rdma://" + d.svc.rdma.Addr().String() + urlPath(d.svc.path))
		if err != nil {
			return err
		}
		if d.c, err = nfsclient.Dial(ctx, u, &nfsclient.Config{Transport: cfg, Tap: d.a.capture.Load().TapClient}); err != nil {
			return err
		}
		d.root = d.c.Root()
		return nil
	}})
}

// tearDown stops both ends and removes the directory.
func (d *demo) tearDown() error {
	if d.c != nil {
		_ = d.c.Close() // every answer was received
	}
	var err error
	if d.svc != nil {
		ctx, cancel := context.WithTimeout(d.a.hard, drainTime)
		defer cancel()
		err = d.svc.stop(ctx)
	}
	if d.tmp != "" {
		if rerr := os.RemoveAll(d.tmp); err == nil {
			err = rerr
		}
	}
	return err
}

// take runs a step and counts what it moved.
func (d *demo) take(ctx context.Context, s step) error {
	var before rpc.Stats
	if d.c != nil {
		before = d.c.Stats()
	}
	start := time.Now()
	err := s.do(ctx)
	row := stepJSON{Step: s.name, Seconds: time.Since(start).Seconds()}
	if d.c != nil {
		now := d.c.Stats()
		row.Calls, row.RDMARead, row.RDMAWrite = now.Calls-before.Calls, now.OctetsRead-before.OctetsRead, now.OctetsWritten-before.OctetsWritten
		row.Inline, row.Credits = now.OctetsInline-before.OctetsInline, now.Credits
	}
	d.rows = append(d.rows, row)
	return err
}

// print prints the table.
func (d *demo) print() {
	if d.a.json {
		for i := range d.rows {
			_ = d.a.printJSON(&d.rows[i]) // a closed pipe shows in the last line
		}
		return
	}
	table := [][]string{{"step", "calls", "RDMA Read", "RDMA Write", "inline", "credits", "time"}}
	for i := range d.rows {
		r := &d.rows[i]
		table = append(table, []string{
			r.Step, fmt.Sprint(r.Calls), ops.Octets(r.RDMARead), ops.Octets(r.RDMAWrite), ops.Octets(r.Inline),
			fmt.Sprint(r.Credits), ops.Took(time.Duration(r.Seconds * float64(time.Second))),
		})
	}
	printColumns(d.a.stdout, table, 1, false, "  ")
}

// step is a part of the demonstration.
type step struct {
	name string
	do   func(ctx context.Context) error
}

// steps lists the steps after the mount. It skips files larger than most.
func (d *demo) steps(most int) []step {
	sizes := slices.DeleteFunc(slices.Clone(demoSizes), func(n int) bool { return n > most })
	d.data = make(nfsclient.Memory, slices.Max(append(sizes, 0)))
	d.back = make(nfsclient.Memory, len(d.data))
	_, _ = rand.NewChaCha8([32]byte{'s', 't', 'a', 'g'}).Read(d.data) // never fails
	var list []step
	for _, n := range sizes {
		list = append(list,
			step{"write " + sizeName(n), func(ctx context.Context) error { return d.write(ctx, n) }},
			step{"read it back, compare", func(ctx context.Context) error { return d.read(ctx, n) }})
	}
	return append(list,
		step{"make directories, a link", d.mkdir},
		step{"list", func(ctx context.Context) error { return d.list(ctx, len(sizes)) }},
		step{"rename", d.rename},
		step{"remove everything", d.remove})
}

// sizeName names a size: "4097 octets", "1 MiB + 3", "64 MiB".
func sizeName(n int) string {
	const mib = 1 << 20
	switch {
	case n < mib:
		return plural(n, "octet")
	case n%mib == 0:
		return fmt.Sprintf("%d MiB", n/mib)
	}
	return fmt.Sprintf("%d MiB + %d", n/mib, n%mib)
}

// fileName is the name of the file of n octets.
func fileName(n int) string { return fmt.Sprintf("file-%d", n) }

// write writes a file, and looks at the server's disk.
func (d *demo) write(ctx context.Context, n int) error {
	node, err := d.c.Create(ctx, d.root, fileName(n), 0o644, true)
	if err != nil {
		return err
	}
	if done, err := d.c.WriteFrom(ctx, node, d.data[:n:n], 0, int64(n), nil); err != nil || done != int64(n) {
		return errors.Join(err, fmt.Errorf("wrote %d of %d octets", done, n))
	}
	st, err := os.Stat(filepath.Join(d.dir, fileName(n)))
	if err == nil && st.Size() != int64(n) {
		err = fmt.Errorf("the file on the server has %d octets, want %d", st.Size(), n)
	}
	return err
}

// read reads a file back and compares.
func (d *demo) read(ctx context.Context, n int) error {
	node, err := d.c.Child(ctx, d.root, fileName(n))
	if err != nil {
		return err
	}
	clear(d.back[:n])
	if done, err := d.c.ReadTo(ctx, node, d.back[:n:n], 0, nil); err != nil || done != int64(n) {
		return errors.Join(err, fmt.Errorf("read %d of %d octets", done, n))
	}
	for i, b := range d.back[:n] {
		if b != d.data[i] {
			return fmt.Errorf("what was read differs from what was written at octet %d", i)
		}
	}
	return nil
}

// mkdir makes nested directories, and a symbolic link to the inner one.
func (d *demo) mkdir(ctx context.Context) error {
	if _, err := d.c.MkdirAll(ctx, d.c.Export()+"/dir/sub", 0o755); err != nil {
		return err
	}
	if _, err := d.c.Symlink(ctx, d.root, "link", "dir/sub"); err != nil {
		return err
	}
	n, err := d.c.Lookup(ctx, d.c.Export()+"/link")
	if err == nil && n.Path != d.c.Export()+"/dir/sub" {
		err = fmt.Errorf("the link leads to %s", n.Path)
	}
	return err
}

// list lists the root and checks the names.
func (d *demo) list(ctx context.Context, files int) error {
	list, err := d.c.ReadDir(ctx, d.root)
	if err == nil && len(list) != files+2 {
		err = fmt.Errorf("listed %d names, want %d", len(list), files+2)
	}
	return err
}

// rename moves a file into the directory.
func (d *demo) rename(ctx context.Context) error {
	sub, err := d.c.Lookup(ctx, d.c.Export()+"/dir/sub")
	if err != nil {
		return err
	}
	if err := d.c.Rename(ctx, d.root, fileName(demoSizes[0]), sub, "moved"); err != nil {
		return err
	}
	if _, err := d.c.Child(ctx, d.root, fileName(demoSizes[0])); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the old name is still there (%w)", err)
	}
	_, err = d.c.Child(ctx, sub, "moved")
	return err
}

// remove removes everything, and looks at the server's disk.
func (d *demo) remove(ctx context.Context) error {
	list, err := d.c.ReadDir(ctx, d.root)
	if err != nil {
		return err
	}
	for _, n := range list {
		if _, err := d.c.RemoveAll(ctx, d.root, n); err != nil {
			return err
		}
	}
	left, err := os.ReadDir(d.dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s left on the server", plural(len(left), "name"))
	}
	return err
}
