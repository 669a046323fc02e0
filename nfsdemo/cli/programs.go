package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/transport"
	"go.uber.org/zap"
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

// Card is what carries NFS/RDMA in a program of its own, in the place of iWARP over TCP: RDMA cards, which need cgo.
type Card struct {
	// Program is the name of the program.
	Program string
	// Listen listens at an address of a device, Dial connects from one. What Listen's listeners accept, and Dial returns,
	// are rdmap.Devices. Listen accepts connections of this machine too: where it matters who calls they are refused here.
	Listen func(ctx context.Context, addr string) (net.Listener, error)
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	// Memory, if not nil, is how many octets the device may have registered. Before Listen and Dial, --card-memory sets it, to
	// at least MinMemory, and a server sets it that finds 0 there. Half of it is for payloads, which calls count.
	Memory    *int64
	MinMemory int64
	// Logger, if not nil, is where a server sets what gets the news of devices, before Listen.
	Logger **zap.Logger
}

// lessen takes what the device has of its own out of the memory for calls. It has the server's log.
func (c *Card) lessen(cfg *transport.Config) error {
	if c == nil {
		return nil
	}
	if c.Logger != nil {
		*c.Logger = cfg.Logger
	}
	if c.Memory == nil {
		return nil
	}
	all := cmp.Or(cfg.Limits.Memory, transport.DefaultMemory)
	if *c.Memory == 0 {
		*c.Memory = max(min(all/2, 128<<20), c.MinMemory)
	}
	cfg.Limits.Memory = all - *c.Memory/2
	if cfg.Limits.Memory < minMemory {
		return usagef("--memory-limit %s: the device takes %s of it, and calls need %s: raise it, or lower --card-memory",
			ops.Octets(all), ops.Octets(all-cfg.Limits.Memory), ops.Octets(int64(minMemory)))
	}
	return nil
}

// MainCard is [Main] for a program whose NFS/RDMA goes over c. It has the commands and the flags of nfsdemo, except those of
// the engine, and of what only the engine carries: logs at a server, and a demonstration on one machine.
func MainCard(c *Card, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{card: c, stdin: stdin, stdout: stdout, stderr: stderr}).main(args)
}

// cardRoot builds its tree of commands.
func (a *app) cardRoot() *cobra.Command {
	c := a.card
	cmd := &cobra.Command{
		Use: c.Program, Short: "NFSv3 over RPC-over-RDMA, on RDMA cards",
		Long: c.Program + ` is nfsdemo on RDMA cards (RoCE, InfiniBand with IP addresses, iWARP): it serves a directory over
NFSv3 on RPC-over-RDMA, and reads and writes files on such servers. Addresses of nfs+rdma://
and of --listen are those of an RDMA device (rdma link, ip address); there is none at 127.0.0.1.

It has been tried on Linux's soft RoCE and soft iWARP, and on no card: please report.`,
		Example: `  nfsdemo serve --export /srv/data --listen 192.0.2.5:20049 --allow 192.0.2.0/24
  nfsdemo ls -l nfs+rdma://192.0.2.5/srv/data
  nfsdemo proxy --to nfs://127.0.0.1:2049 --listen 192.0.2.5:20049`,
	}
	a.frame(cmd)
	flags := cmd.PersistentFlags()
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress bar")
	if c.Memory != nil {
		flags.Var(number[int64]{c.Memory, c.MinMemory, maxSize, orDefault | inOctets}, "card-memory", "how many octets may be registered with the device, and so locked, at a time; half of them come out of --memory-limit, payloads are in it already; 0: half of that limit, 8M to 128M")
	}
	cmd.AddCommand(a.serveCmd(), a.lsCmd(), a.catCmd(), a.cpCmd(), a.statCmd(),
		a.mkdirCmd(), a.rmCmd(), a.mvCmd(), a.dfCmd(), a.proxyCmd(), a.doctorCmd(), a.exportsCmd())
	addCompletion(cmd)
	a.rename(cmd)
	return cmd
}

// rename puts the name of the program into the help of nfsdemo, without the examples that it has no flags for.
func (a *app) rename(cmd *cobra.Command) {
	engine := []string{"127.0.0.1:20049", "rdma://127.0.0.1", "127.0.0.1:0", "--pcap", "--push", "--replies", "--backward"}
	var kept []string
	for line := range strings.Lines(cmd.Example) {
		alone := strings.Contains(line, "serve") && !strings.Contains(line, "--listen")
		for _, s := range engine {
			alone = alone || strings.Contains(line, s)
		}
		if !alone {
			kept = append(kept, line)
		}
	}
	cmd.Example = strings.TrimRight(strings.ReplaceAll(strings.Join(kept, ""), "nfsdemo", a.name()), "\n")
	if text, logs, ok := strings.Cut(cmd.Long, "\n\nWith --push-log"); ok && logs != "" {
		cmd.Long = text
	}
	if cmd.HasParent() {
		cmd.Long = strings.NewReplacer(" (software iWARP)", "", "iWARP (MPA)", "RDMA", "nfsdemo", a.name()).Replace(cmd.Long)
	}
	for _, c := range cmd.Commands() {
		a.rename(c)
	}
}

// errPcap is why a card is not recorded.
var errPcap = usagef("--pcap: what a card sends does not pass through this program: record it with tcpdump -i DEV -w FILE, at a RoCE device or its port; see `tcpdump -D`")

// dialRDMA is how the commands connect for NFS/RDMA; nil: over TCP.
func (a *app) dialRDMA() func(ctx context.Context, addr string) (net.Conn, error) {
	if a.card == nil {
		return nil
	}
	return a.card.Dial
}
