package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/internal/cliout"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1 // an operation failed
	exitUsage  = 2 // the command line, a URL or the file of --config was not understood
	// A command that a signal ended has 128 and the number of the signal: 130 after Ctrl-C.
)

// app is one run of the program: its streams, its signals and the flags that all
// commands share.
type app struct {
	storage        *Storage // nil: directories
	card           *Card    // nil: the engine, over TCP
	stdin          io.Reader
	stdout, stderr io.Writer
	hard           context.Context // done at the second interrupt

	serving atomic.Bool // the command itself handles an interrupt, by draining

	client clientFlags
	quiet  bool
	json   bool
	log    string // --log

	logFormat string // --log-format

	pcap    string                         // --pcap
	capture atomic.Pointer[capture.Writer] // nil without --pcap
}

// Main runs the command in args (without the program's name) and returns the
// exit status. It handles SIGINT and SIGTERM while it runs.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{stdin: stdin, stdout: stdout, stderr: stderr}).main(args)
}

// main runs args until an interrupt.
func (a *app) main(args []string) int {
	soft, hard, stop := interrupts(context.Background())
	defer stop()
	a.hard = hard
	done := make(chan int, 1)
	go func() { done <- a.run(soft, args) }()
	select {
	case status := <-done:
		return status
	case <-soft.Done():
	}
	if a.serving.Load() {
		return <-done
	}
	select {
	case status := <-done:
		return status
	case <-time.After(giveUpTime): // perhaps it hangs in a write to a pipe
		_ = a.stopCapture() // the interrupt is the error to report
		a.report(context.Cause(soft))
		return exitStatus(context.Cause(soft))
	}
}

// giveUpTime is how long after an interrupt a client command may take to end.
const giveUpTime = 3 * time.Second

// run executes args and turns the error into a line and a status.
func (a *app) run(ctx context.Context, args []string) (status int) {
	defer func() {
		if r := recover(); r != nil {
			a.report(fmt.Errorf("internal error: %v (a bug in %s; --log debug shows where)", r, a.name()))
			if a.log == "debug" {
				fmt.Fprintf(a.stderr, "%s", debug.Stack())
			}
			status = exitFailed
		}
	}()
	out := cliout.New(a.stdout)
	a.stdout = out
	root := a.commands()
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = out.Err() // of writes whose errors nobody checked
	}
	cerr := a.stopCapture()
	if err == nil && cerr == nil {
		return exitOK
	}
	if cerr != nil {
		a.report(cerr)
		if err == nil {
			return exitFailed
		}
	}
	_, aborted := errors.AsType[*drainError](err) // which says more
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, errReported) && !aborted {
		err = cause
	}
	if !errors.Is(err, errReported) {
		a.report(err)
	}
	return exitStatus(err)
}

// report prints one line on standard error.
func (a *app) report(err error) {
	text := explain(err)
	if a.card != nil {
		text = strings.ReplaceAll(text, "iWARP", "RDMA")
	}
	failed(text)
	if w, ok := a.stderr.(lineWriter); ok {
		w.log.Error(text)
		return
	}
	fmt.Fprintln(a.stderr, a.name()+": "+text)
}

// commands builds the tree of commands.
func (a *app) commands() *cobra.Command {
	switch {
	case a.storage != nil:
		return a.storageRoot()
	case a.card != nil:
		return a.cardRoot()
	}
	return a.root()
}

// root builds that of nfsdemo.
func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nfsdemo",
		Short: "NFSv3 over RPC-over-RDMA, without RDMA hardware",
		Long: `nfsdemo serves a directory over NFSv3 on RPC-over-RDMA (software iWARP), and
reads and writes files on such servers, or on any NFSv3 server over TCP, without
a mount.

URLs name files: nfs+rdma://host[:port]/export/path, nfs+rdma+tls://… and nfs://….
?mountport=N names the TCP port of MOUNT; without it, nfsdemo tries the NFS port, and
then asks rpcbind.`,
		Example: `  nfsdemo demo
  nfsdemo serve --export /srv/data
  nfsdemo ls -l nfs+rdma://127.0.0.1/srv/data
  nfsdemo cp big.iso nfs+rdma://127.0.0.1/srv/data/`,
	}
	a.frame(cmd)
	flags := cmd.PersistentFlags()
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress bar")
	cmd.AddCommand(a.demoCmd(), a.serveCmd(), a.lsCmd(), a.catCmd(), a.cpCmd(), a.statCmd(),
		a.mkdirCmd(), a.rmCmd(), a.mvCmd(), a.dfCmd(), a.proxyCmd(), a.logCmd(), a.doctorCmd(), a.exportsCmd())
	addCompletion(cmd)
	return cmd
}

// frame gives a root what all programs have.
func (a *app) frame(cmd *cobra.Command) {
	cmd.Args, cmd.RunE = unknownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Version, cmd.SilenceErrors, cmd.SilenceUsage = cliout.Version(), true, true
	cmd.SetVersionTemplate(fmt.Sprintf("%s %s, %s, %s/%s\n", a.name(), cliout.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%v (see %s --help)", err, c.CommandPath())
	})
	flags := cmd.PersistentFlags()
	flags.StringVar(&a.log, "log", "", "log to standard error, this `level` and above: debug, info, warn, error (serve and proxy: info)")
	flags.StringVar(&a.logFormat, "log-format", formatText, "`form` of the log: text or json")
	flags.StringVar(&a.pcap, "pcap", "", "record the connections in this `file`, a pcapng capture for Wireshark")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return a.startCapture() }
}

// addCompletion adds cobra's command for the completion of shells, with examples, and with an error for
// shells that it does not know.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	examples := map[string]string{
		"bash": "  source <(nfsdemo completion bash)", "zsh": "  source <(nfsdemo completion zsh)",
		"fish": "  nfsdemo completion fish | source", "powershell": "  nfsdemo completion powershell | Out-String | Invoke-Expression",
	}
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args, c.RunE = unknownCommand, root.RunE
		for _, shell := range c.Commands() {
			shell.Example = examples[shell.Name()]
		}
	}
}

// unknownCommand refuses words that are not commands.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	msg := fmt.Sprintf("unknown command %q", args[0])
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])/2) // of three letters, one may be wrong
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
		return usagef("%s: did you mean %q?", msg, s[0])
	}
	return usagef("%s: see %s --help", msg, cmd.CommandPath())
}

// nArgs requires lo to hi arguments (hi < 0: any number); want describes them in the error.
func nArgs(lo, hi int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < lo || hi >= 0 && len(args) > hi {
			return usagef("%s takes %s: see %s --help", below(cmd), want, cmd.CommandPath())
		}
		return nil
	}
}

// below names cmd without the program, whose name already begins the line.
func below(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// Command returns the tree of commands, for manual pages and completion. To run a command, use [Main].
func Command() *cobra.Command { return (&app{}).root() }

// startCapture creates the file of --pcap.
func (a *app) startCapture() error {
	if a.pcap == "" {
		return nil
	}
	if a.card != nil {
		return errPcap
	}
	w, err := capture.Create(a.pcap)
	if err != nil {
		return fmt.Errorf("--pcap %s: %w", a.pcap, bare(err))
	}
	a.capture.Store(w)
	return nil
}

// stopCapture flushes and closes the file of --pcap.
func (a *app) stopCapture() error {
	w := a.capture.Load()
	if w == nil {
		return nil
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("--pcap %s: %w", a.pcap, bare(err))
	}
	return nil
}

// interruptError is the cause of the end of a context that interrupts returned.
type interruptError struct{ signal os.Signal }

func (e *interruptError) Error() string {
	if e.signal == os.Interrupt {
		return "interrupted"
	}
	return e.signal.String()
}

// status is the exit status of a command that the signal has ended, as shells report it: 128 and the
// number of the signal.
func (e *interruptError) status() int {
	if n, ok := e.signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}

// interrupts returns a context that ends at the first SIGINT or SIGTERM, and one that ends at the
// second. The third one kills the process, as it would without a handler. The caller must call stop.
func interrupts(parent context.Context) (soft, hard context.Context, stop func()) {
	soft, cancelSoft := context.WithCancelCause(parent)
	hard, cancelHard := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, cancel := range []context.CancelCauseFunc{cancelSoft, cancelHard} {
			select {
			case sig := <-ch:
				cancel(&interruptError{sig})
			case <-quit:
				return
			}
		}
		signal.Stop(ch)
	})
	return soft, hard, func() {
		signal.Stop(ch)
		close(quit)
		wg.Wait()
		cancelSoft(nil)
		cancelHard(nil)
	}
}

// notify tells systemd about the state of a server, if the unit wants to know (Type=notify). It is
// nobody's error if systemd is not there.
func notify(state string) { _, _ = sd.SdNotify(false, state) }

// ready says that a server serves, with the line that systemctl status shows; failed leaves another line there.
func ready(status string)  { notify(sd.SdNotifyReady + "\nSTATUS=" + status) }
func failed(status string) { notify("STATUS=" + status) }

// untilInterrupt announces a server that serves, and has it read its configuration again at each SIGHUP, until an interrupt (nil:
// it is to answer what has arrived) or an error. announce returns what systemctl status shows.
func (a *app) untilInterrupt(ctx context.Context, log *slog.Logger, again func() (string, error), errs <-chan error, announce func() (string, error)) error {
	a.serving.Store(true)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	status, err := announce()
	if err != nil {
		return err
	}
	ready(status)
	for {
		select {
		case <-ctx.Done():
			notify(sd.SdNotifyStopping)
			fmt.Fprintln(a.stderr, a.name()+": stopping; interrupt again to stop at once")
			return nil
		case <-hup:
			reload(log, again)
		case err := <-errs:
			return err
		}
	}
}

// reload runs f after a SIGHUP. What a server does not understand it does not take: it goes on with the
// configuration that it has. f returns the exports.
func reload(log *slog.Logger, f func() (string, error)) {
	if f == nil {
		log.Info("nothing to reload: the configuration is in the flags")
		return
	}
	notify(sd.SdNotifyReloading)
	exports, err := f()
	if err != nil {
		log.Error("not reloaded: the configuration stays as it was", "error", err)
		ready("not reloaded: " + err.Error() + "; serving what was served before")
		return
	}
	log.Info("reloaded", "exports", exports)
	ready("serving " + exports)
}
