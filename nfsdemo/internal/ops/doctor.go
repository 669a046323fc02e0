package ops

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/xdr"
)

// This file and those of machine and server find what keeps a mount over RDMA, or over TCP with TLS, from working, and say
// what to do about it: from the port of the server, through MPA or TLS, RPC and MOUNT, to what the Linux kernel of this
// machine lacks.

// State is the outcome of a check.
type State string

// States.
const (
	OK      State = "ok"
	Warning State = "warning" // a mount may work all the same
	Failed  State = "failed"
	Skipped State = "skipped" // because of an earlier failure
)

// Result is the outcome of one check.
type Result struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
	Local  bool   `json:"local,omitempty"` // about this machine, not the server
}

// Config says what to check.
type Config struct {
	URL *nfsclient.URL
	// TLS has whom to trust, for nfs:// and nfs+rdma+tls://; nil: a mount in clear.
	TLS *tls.Config
	// GSS makes contexts with the server, for a mount with Kerberos; nil: none.
	GSS  *gss.Client
	Cred *xdr.SysCred // nil: of this process
	// Timeout limits each check. If zero, 5 s.
	Timeout time.Duration
	// Root is the directory in which this machine is looked at, normally "/"; "" leaves it out.
	Root string
	// Rpcbind is the port of rpcbind. If zero, 111.
	Rpcbind int
}

// doctor is one examination.
type doctor struct {
	Config
	results []Result
	port    int // of MOUNT over TCP, once it is known

	reserved bool // MOUNT was asked from a port below 1024
	unsure   bool // it was not, and refuses: it may be that
}

// Run runs all checks, in the order in which a mount would meet them. Those that depend on one that failed
// are skipped.
func Run(ctx context.Context, cfg Config) *Findings {
	d := &doctor{Config: cfg, port: cfg.URL.MountPort}
	if d.Timeout == 0 {
		d.Timeout = 5 * time.Second
	}
	if d.Rpcbind == 0 {
		d.Rpcbind = 111
	}
	steps := []struct {
		name string
		run  func(context.Context) Result
	}{
		{"name", d.name}, {"port", d.connects}, {"start-up", d.startup}, {"RPC", d.rpc}, {"MOUNT", d.mountd}, {"export", d.export}, {"files", d.files},
	}
	if d.TLS != nil {
		steps[2].name, steps[2].run = "TLS", d.tls
	}
	if d.GSS != nil {
		steps[3].name, steps[3].run = "Kerberos", d.kerberos
	}
	if d.TLS == nil && d.URL.Scheme == nfsclient.SchemeTCP { // there is no start-up
		steps = append(steps[:2], steps[3:]...)
	}
	broken := ""
	for _, s := range steps {
		r := Result{State: Skipped, Detail: "after " + broken}
		if broken == "" {
			ctx, cancel := context.WithTimeout(ctx, d.Timeout)
			r = s.run(ctx)
			cancel()
		}
		r.Check = s.name
		if d.URL.Scheme == nfsclient.SchemeTCP {
			r.Fix = strings.ReplaceAll(strings.ReplaceAll(r.Fix, "nfs+rdma://", "nfs://"), "NFS/RDMA, usually 20049", "NFS/TCP, usually 2049")
		}
		if r.State == Failed {
			broken = s.name
		}
		d.results = append(d.results, r)
	}
	if d.Root != "" {
		d.results = append(d.results, machine(d.Root, d.TLS != nil, d.URL.Scheme == nfsclient.SchemeRDMA, d.GSS != nil)...)
	}
	return &Findings{Results: d.results, Export: d.URL.Path, MountPort: d.port}
}

// Report is the outcome of all checks.
type Findings struct {
	Results   []Result
	Export    string // the path in the URL, or the first export if it has none
	MountPort int    // of MOUNT over TCP
}

func good(format string, args ...any) Result {
	return Result{State: OK, Detail: fmt.Sprintf(format, args...)}
}

func bad(fix, format string, args ...any) Result {
	return Result{State: Failed, Detail: fmt.Sprintf(format, args...), Fix: fix}
}

func doubtful(fix, format string, args ...any) Result {
	r := bad(fix, format, args...)
	r.State = Warning
	return r
}

// name finds the addresses of the host.
func (d *doctor) name(ctx context.Context) Result {
	list, err := net.DefaultResolver.LookupHost(ctx, d.URL.Host)
	if err != nil {
		return bad("spell the name as DNS or /etc/hosts do, or give the address", "%v", err)
	}
	return good("%s is %s", d.URL.Host, list[0])
}
