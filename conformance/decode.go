package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// decodeFlags are the flags of decode.
type decodeFlags struct {
	json, counts, strict, errors bool
	ulp                          string
}

func decodeCmd() *cobra.Command {
	var f decodeFlags
	cmd := &cobra.Command{
		Use:   "decode FILE...",
		Short: "Print what the packets of a capture say, one line per frame",
		Long: `decode reads pcap and pcapng files, also compressed by gzip (- is standard input), and prints one line per
MPA frame: packet, seconds, connection, direction (> from the side that opened
the connection), then the fields of MPA, DDP, RDMAP, RPC-over-RDMA and RPC, if
present. MPA is recognised on any port; of RoCE and InfiniBand each packet of a reliable
connection is a frame, but acknowledgements and what is sent again. After "!!" it says what is wrong with a frame.

NFS and other RPC over TCP is printed too, a line per call and reply. Connections that are
neither MPA nor RPC are listed once and not shown further.

Exit status: 0 done; 1 a file could not be read or is damaged; 2 bad command
line; 3 with --strict, a frame is not well formed or octets were not decoded.`,
		Example: `  conformance decode trace.pcap
  conformance decode --counts trace.pcap
  conformance decode --json trace.pcap | jq 'select(.rpc.procedure == "NFSv3 READ")'
  conformance decode --errors --strict trace.pcap   # silent and 0 when all is well
  tcpdump -i lo -w - port 20049 | conformance decode -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s wants at least one file: see %s --help", below(cmd), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object per frame, or with --counts per file")
	flags.BoolVar(&f.counts, "counts", false, "print how often things occur instead of the frames")
	flags.BoolVar(&f.errors, "errors", false, "print only frames with something wrong")
	flags.BoolVar(&f.strict, "strict", false, "exit 3 if anything is wrong")
	flags.StringVar(&f.ulp, "ulp", "auto", "what Sends carry: `auto`, rpcrdma or none")
	return cmd
}

// options turns the flags into options of the decoder.
func (f *decodeFlags) options() (*decode.Options, error) {
	ulps := map[string]decode.ULP{"auto": decode.ULPAuto, "rpcrdma": decode.ULPRPCRDMA, "none": decode.ULPOpaque}
	ulp, ok := ulps[f.ulp]
	if !ok {
		return nil, usagef("--ulp %q: want auto, rpcrdma or none", f.ulp)
	}
	return &decode.Options{ULP: ulp}, nil
}

func (f *decodeFlags) run(cmd *cobra.Command, files []string) error {
	opt, err := f.options()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	defer out.Flush()
	wrong := false
	for _, name := range files {
		p := &printer{flags: f, out: out, name: name, counts: make(decode.Counts), many: len(files) > 1}
		if err := p.file(cmd.InOrStdin(), opt); err != nil {
			_ = out.Flush() // what was decoded before the damage
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(p.counts) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: no connection to decode: conformance judge %s says what there is\n", name, name)
		}
		wrong = wrong || p.wrong
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if f.strict && wrong {
		return &exitError{status: exitStrict}
	}
	return nil
}

// printer prints one file.
type printer struct {
	flags  *decodeFlags
	out    *bufio.Writer
	name   string
	many   bool
	counts decode.Counts
	start  time.Time
	wrong  bool
	err    error
}

// file decodes the file and prints what was asked for.
func (p *printer) file(stdin io.Reader, opt *decode.Options) error {
	r := stdin
	if p.name != "-" {
		f, err := os.Open(p.name)
		if err != nil {
			return errors.Unwrap(err) // the caller names the file
		}
		defer f.Close()
		r = f
	}
	if p.many && !p.flags.json {
		fmt.Fprintf(p.out, "== %s\n", p.name)
	}
	for ev, err := range decode.Events(r, opt) {
		if err != nil {
			return err
		}
		if p.event(ev); p.err != nil {
			return p.err
		}
	}
	if p.flags.counts {
		return p.summary()
	}
	return nil
}

// event handles one event.
func (p *printer) event(ev *decode.Event) {
	if p.start.IsZero() {
		p.start = ev.Time
	}
	foreign := errors.Is(ev.Err, decode.ErrNotMPA)
	if foreign && ev.Offset > 0 {
		return
	}
	foreign = foreign || errors.Is(ev.Err, decode.ErrEncrypted) // it is as it should be
	p.wrong = p.wrong || ev.Err != nil && !foreign
	p.counts.Add(ev)
	switch {
	case p.flags.counts, p.flags.errors && (ev.Err == nil || foreign):
	case p.flags.json:
		b, err := json.Marshal(ev)
		if err == nil {
			_, err = p.out.Write(append(b, '\n'))
		}
		p.err = err
	default:
		_, p.err = fmt.Fprintln(p.out, ev.Line(p.start))
	}
}

// summary prints the counts.
func (p *printer) summary() error {
	if p.flags.json {
		return json.NewEncoder(p.out).Encode(struct {
			File   string        `json:"file"`
			Counts decode.Counts `json:"counts"`
		}{p.name, p.counts})
	}
	for _, k := range p.counts.Keys() {
		fmt.Fprintf(p.out, "%-16s %d\n", k, p.counts[k])
	}
	return nil
}
