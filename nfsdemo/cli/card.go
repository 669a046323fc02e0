package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport"
	"go.uber.org/zap"
)

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
			octets(uint64(all)), octets(uint64(all-cfg.Limits.Memory)), octets(minMemory))
	}
	return nil
}

// cardMemory is the value of --card-memory.
type cardMemory struct {
	*size
	least size
}

func (m *cardMemory) Set(text string) error {
	var n size
	if err := n.Set(text); err != nil {
		return err
	}
	if n != 0 && (n < m.least || n > maxSize) {
		most := size(maxSize)
		return fmt.Errorf("want %s to %s, or 0 for the default", &m.least, &most)
	}
	*m.size = n
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
		flags.Var(&cardMemory{(*size)(c.Memory), size(c.MinMemory)}, "card-memory", "how many octets may be registered with the device, and so locked, at a time; half of them come out of --memory-limit, payloads are in it already; 0: half of that limit, 8M to 128M")
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
