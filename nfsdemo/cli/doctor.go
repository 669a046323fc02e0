package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	srv "github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/xdr"
)

// exitMachine is the status of doctor if only this machine is in the way.
const exitMachine = 3

// errMachine says that a mount fails because of this machine alone. The results have been printed.
var errMachine = fmt.Errorf("this machine: %w", errReported)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	timeout time.Duration
	server  bool
	tls     tlsFiles
	sec     string
}

// doctorCmd is the command doctor.
func (a *app) doctorCmd() *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor HOST|URL",
		Short: "Find what keeps a mount from working",
		Long: `doctor checks what a mount of NFS over RDMA needs, or with --tls-ca one over TCP with TLS, in
the order in which the mount would meet it: the name, the port, the start-up of iWARP (MPA)
or TLS, RPC, MOUNT over TCP (as root from a port below 1024, as mount does), the export, and
its files; then, on Linux, the modules, the device and the programs of this machine. A server
of this machine is asked for its own problems. It says what is wrong, and what to do.

Without a URL, the port is 20049 and the export is the first one of the server. The port
of MOUNT is that of ?mountport=N, or the one that rpcbind names, or 20048.

The status is 0 if a mount can work, 1 if the server or the way to it is in the way, and
3 if only this machine is.`,
		Example: `  nfsdemo doctor fileserver
  nfsdemo doctor --json nfs+rdma://192.0.2.5:20049/srv/data?mountport=20048
  nfsdemo doctor --server-only fileserver
  nfsdemo doctor --sec krb5p fileserver.example.org
  nfsdemo doctor --tls-ca ca.pem nfs://fileserver/srv/data`,
		Args: nArgs(1, 1, "one host or URL"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.doctor(cmd.Context(), f, args[0]) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.timeout, "timeout", 5*time.Second, "give up each check after this `time`")
	f.tls.clientFlags(cmd)
	flags.StringVar(&f.sec, "sec", "sys", "look at a mount with Kerberos: krb5, krb5i or krb5p")
	flags.BoolVar(&f.server, "server-only", false, "do not look at this machine")
	flags.BoolVar(&a.json, "json", false, "print the results as JSON")
	return cmd
}

// doctorJSON is the output of doctor --json.
type doctorJSON struct {
	Server  string       `json:"server"`
	Results []ops.Result `json:"results"`
	Mount   string       `json:"mount,omitempty"` // the command that should work
}

// doctorURL completes a host to a URL.
func doctorURL(arg string, secure, kerberos bool) (*nfsclient.URL, error) {
	if !strings.Contains(arg, "://") {
		if strings.Count(arg, ":") > 1 && !strings.HasPrefix(arg, "[") {
			arg = "[" + arg + "]"
		}
		arg = "nfs+rdma://" + arg
		if !strings.Contains(strings.TrimPrefix(arg, "nfs+rdma://"), "/") {
			arg += "/"
		}
	}
	u, err := nfsclient.ParseURL(arg)
	switch {
	case err != nil:
	case u.Scheme == nfsclient.SchemeTCP && !secure && !kerberos:
		return nil, usagef("doctor is for NFS over RDMA, and over TCP with TLS or Kerberos: use nfs+rdma://%s, or give --tls-ca or --sec", strings.TrimPrefix(arg, "nfs://"))
	case u.Scheme == nfsclient.SchemeRDMA && u.TLS != secure:
		return nil, usagef("nfs+rdma+tls:// and --tls-ca: give both or neither")
	}
	return u, err
}

func (a *app) doctor(ctx context.Context, f *doctorFlags, arg string) error {
	u, err := doctorURL(arg, f.tls.ca != "", f.sec != "sys")
	if err != nil {
		return err
	}
	if f.timeout <= 0 {
		return usagef("--timeout %v: want a positive time", f.timeout)
	}
	cfg := ops.Config{URL: u, Timeout: f.timeout, Root: "/", Dial: a.dialRDMA()}
	if cfg.TLS, err = f.tls.client(); err != nil {
		return err
	}
	if cfg.GSS, err = secOf(f.sec, u.Host); err != nil {
		return err
	}
	if f.server || a.card != nil { // where a mount needs a card and its driver, not siw
		cfg.Root = ""
	}
	report := ops.Run(ctx, cfg)
	report.Results = append(report.Results, ownServer(ctx, u.Host)...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out := doctorJSON{Server: u.Addr(), Results: report.Results}
	server, machine := false, false
	for _, r := range report.Results {
		server = server || r.State == ops.Failed && !r.Local
		machine = machine || r.State == ops.Failed && r.Local
	}
	at := readyJSON{Export: report.Export, Mount: net.JoinHostPort(u.Host, strconv.Itoa(report.MountPort))}
	if report.Locks {
		at.Locks = locksOn
	}
	e := srv.Export{XprtSec: srv.XprtNone}
	for _, how := range secNames {
		if how.name == f.sec {
			e.Sec = []xdr.AuthFlavor{how.flavor}
		}
	}
	switch {
	case server, u.TLS: // Linux has no TLS on RDMA
	case cfg.TLS == nil && u.Scheme == nfsclient.SchemeTCP:
		at.TCP = u.Addr()
	case cfg.TLS == nil:
		at.RDMA = u.Addr()
	case len(cfg.TLS.Certificates) > 0:
		at.TCP, e.XprtSec = u.Addr(), srv.XprtMTLS
	default:
		at.TCP, e.XprtSec = u.Addr(), srv.XprtTLS
	}
	out.Mount = mountLine(&at, &e)
	if err := a.printDoctor(&out); err != nil {
		return err
	}
	switch {
	case server:
		return errReported
	case machine:
		return errMachine
	}
	return nil
}

// ownServer says what a server of this machine says about itself, if it is the one in question and this user may ask it:
// exports that are away, locks that are off, too few descriptors, more memory than its cgroup has.
func ownServer(ctx context.Context, host string) (list []ops.Result) {
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	own, ierr := net.InterfaceAddrs()
	dir := stateDir()
	if err != nil || ierr != nil || dir == "" || !slices.ContainsFunc(ips, func(ip net.IPAddr) bool {
		return ip.IP.IsLoopback() || slices.ContainsFunc(own, func(a net.Addr) bool { n, ok := a.(*net.IPNet); return ok && n.IP.Equal(ip.IP) })
	}) {
		return nil
	}
	text, err := askControl(ctx, filepath.Join(dir, controlName), http.MethodGet, "/status.json")
	var r exportsJSON
	if err != nil || json.Unmarshal(text, &r) != nil {
		return nil // there is none, or it is another user's
	}
	for _, p := range r.Problems {
		what := p.Error
		if p.Export != "" {
			what = p.Export + ": " + what
		}
		list = append(list, ops.Result{Check: "server", State: ops.Warning, Detail: what, Fix: p.Remedy})
	}
	if len(list) == 0 {
		list = append(list, ops.Result{Check: "server", State: ops.OK, Detail: "the server of this machine has no problems"})
	}
	return list
}

// printDoctor prints the results.
func (a *app) printDoctor(out *doctorJSON) error {
	if a.json {
		return a.printJSON(out)
	}
	var errs []error
	for _, r := range out.Results {
		state := string(r.State)
		if r.State == ops.Failed {
			state = "FAILED"
		}
		_, err := fmt.Fprintf(a.stdout, "%-8s %-10s %s\n", state, r.Check, quoteName(r.Detail))
		errs = append(errs, err)
		if r.Fix != "" {
			fmt.Fprintf(a.stdout, "%-8s %-10s -> %s\n", "", "", quoteName(r.Fix))
		}
	}
	if out.Mount != "" && quoteName(out.Mount) == out.Mount { // an export is named by the server: another name would be another directory
		fmt.Fprintf(a.stdout, "to mount it, as root:\n  %s\n", out.Mount)
	}
	return errors.Join(errs...)
}
