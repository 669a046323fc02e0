package ops

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/gss/krb5"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
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
	// Dial connects for NFS/RDMA by a card; nil: over TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
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
	locks   bool

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
	if d.Dial != nil && d.URL.Scheme == nfsclient.SchemeRDMA {
		steps = append(steps[:1], steps[2:]...) // the port is one of the device
		steps[1].name, steps[1].run = "device", d.device
		if d.GSS != nil {
			steps[2].name, steps[2].run = "Kerberos", d.kerberos
		}
	} else if d.TLS != nil {
		steps[2].name, steps[2].run = "TLS", d.tls
	}
	if d.GSS != nil && d.Dial == nil {
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
	return &Findings{Results: d.results, Export: d.URL.Path, MountPort: d.port, Locks: d.locks}
}

// Findings is the outcome of all checks.
type Findings struct {
	Results   []Result
	Export    string // the path in the URL, or the first export if it has none
	MountPort int    // of MOUNT over TCP
	Locks     bool   // rpcbind names a lock manager
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

// dial opens a TCP connection.
func (d *doctor) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(d.Timeout))
}

// unreachable says why a port cannot be reached.
func unreachable(addr string, err error, server string) Result {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return bad("start "+server+" on this address, or name its port: nfs+rdma://HOST:PORT/EXPORT", "nobody listens on %s", addr)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return bad("check the address, and the route to it", "%s cannot be reached", addr)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		_, port, _ := net.SplitHostPort(addr)
		return bad("open TCP port "+port+" in the firewall of the server, and between", "no answer from %s: a firewall drops the packets, or the host is down", addr)
	}
	return bad("check the address", "%s: %v", addr, err)
}

// connects checks that somebody listens on the port.
func (d *doctor) connects(ctx context.Context) Result {
	conn, err := d.dial(ctx, d.URL.Addr())
	if err != nil {
		flag := "--listen"
		if d.URL.Scheme == nfsclient.SchemeTCP {
			flag = "--tcp"
		}
		r := unreachable(d.URL.Addr(), err, "the server (nfsdemo serve "+flag+")")
		if errors.Is(err, syscall.ECONNREFUSED) {
			d.elsewhere(ctx, &r)
		}
		return r
	}
	_ = conn.Close() // nothing was sent on it
	return good("%s accepts connections", d.URL.Addr())
}

// elsewhere says of a host at whose port nobody listens whether its server is stopped, or is another one, at another port.
func (d *doctor) elsewhere(ctx context.Context, r *Result) {
	ports := []int{2049}
	if p, err := d.registered(ctx, nfs3.Program, nfs3.Version); err == nil && p != 2049 {
		ports = append(ports, p)
	}
	for _, p := range ports {
		addr := net.JoinHostPort(d.URL.Host, strconv.Itoa(p))
		if addr == d.URL.Addr() {
			continue
		}
		if h, err := d.nullAt(ctx, addr); err != nil || h.Denied || h.Accept == xdr.ProgUnavail {
			continue
		}
		r.Detail += fmt.Sprintf(", but an NFS server answers over TCP on port %d", p)
		r.Fix = fmt.Sprintf("if that is nfsdemo, start it with --listen, or name its port: nfs+rdma://HOST:PORT/EXPORT; if it is Linux's: echo rdma 20049 >/proc/fs/nfsd/portlist; or mount over TCP: -o proto=tcp,port=%d", p)
		return
	}
	r.Detail += ", nor is there an NFS server over TCP: it is stopped"
	r.Fix = "start it: systemctl start nfsdemo, or nfsdemo serve; systemctl status nfsdemo says why it has ended. If it is not stopped, name its port: nfs+rdma://HOST:PORT/EXPORT"
}

// startup runs the MPA start-up as Linux's siw does: revision 1, without CRC or markers.
func (d *doctor) startup(ctx context.Context) Result {
	conn, err := d.dial(ctx, d.URL.Addr())
	if err != nil {
		return unreachable(d.URL.Addr(), err, "the server")
	}
	defer conn.Close() //nolint:errcheck // the answer is here
	req, err := (&mpa.Request{Frame: mpa.Frame{Rev: 1}}).Append(nil)
	if err == nil {
		_, err = conn.Write(req)
	}
	if err != nil {
		return d.notMPA(ctx, nil, err)
	}
	var got []byte
	buf := make([]byte, 1024)
	for {
		n, err := conn.Read(buf)
		got = append(got, buf[:n]...)
		reply, size, perr := mpa.ParseReply(got)
		switch {
		case size > 0:
			return judge(&reply)
		case perr != nil && len(got) >= mpa.StartupHeaderLen && bytes.HasPrefix(got, []byte("MPA ID Rep Frame")):
			return bad("update the server, or set it to revision 1 of MPA (RFC 5044)", "the server answers with MPA revision %d, which Linux does not ask for: %v", got[17], perr)
		case perr != nil || err != nil:
			return d.notMPA(ctx, got, err)
		}
	}
}

// judge looks at the options of a Reply.
func judge(r *mpa.Reply) Result {
	switch {
	case r.Rejected:
		return bad("admit this machine at the server (nfsdemo serve --allow), or raise its limits (--max-connections, --client-connections); its log says which it was",
			"the server refuses the connection: it does not serve this address, or has too many connections")
	case r.Rev != 1:
		return bad("update the server, or set it to revision 1 of MPA (RFC 5044)", "the server answers a Request of MPA revision 1 with revision %d", r.Rev)
	case r.Markers:
		return bad("switch MPA markers off at the server", "the server asks for MPA markers, which Linux's siw does not have")
	case r.CRC:
		return doubtful("leave it to the client: nfsdemo serve --crc peer; or use a kernel whose siw checks trailers that arrive in two parts",
			"the server switches CRC on. It works, but Linux's siw may take a good CRC for a bad one, and reconnects then")
	}
	return good("MPA revision 1, without CRC and markers, as Linux wants it")
}

// notMPA says what a port is that does not answer as an iWARP peer, if that can be found out.
func (d *doctor) notMPA(ctx context.Context, got []byte, err error) Result {
	addr := d.URL.Addr()
	port := "name the port of NFS/RDMA, usually 20049: nfs+rdma://HOST:PORT/EXPORT"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Timeout)
	defer cancel()
	switch h, err := d.nullAt(ctx, addr); {
	case err != nil:
	case h.Err() != nil:
		return bad(port, "%s is RPC over TCP, but not NFS: it may be the port of MOUNT", addr)
	default:
		return bad("mount it without RDMA (-o proto=tcp), put \"nfsdemo proxy --to nfs://"+addr+"\" in front of it, or name the RDMA port, usually 20049",
			"%s is NFS over TCP, not RDMA", addr)
	}
	switch {
	case len(got) > 0:
		return bad(port, "%s is not an iWARP peer: it answers %q", addr, strings.TrimSpace(string(got[:min(len(got), 24)])))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return bad(port, "%s is not an iWARP peer: it accepts connections, and does not answer the MPA start-up within %v", addr, d.Timeout)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return bad(port+". If this is the port, the server may hang up on addresses that it does not serve: see its log",
			"%s is not an iWARP peer: it hangs up during the MPA start-up", addr)
	}
	return bad(port, "%s is not an iWARP peer: %v", addr, err)
}

// null calls the NULL procedure of version 3 of a program.
func null(ctx context.Context, c rpc.Caller, prog uint32) (h xdr.ReplyHeader, err error) {
	var reply rpc.Reply
	defer reply.Release()
	err = c.Do(ctx, &rpc.Call{Prog: prog, Vers: 3}, &reply)
	return reply.Header, err
}

// nullAt calls NULL over TCP at an address.
func (d *doctor) nullAt(ctx context.Context, addr string) (xdr.ReplyHeader, error) {
	c, err := transport.DialStream(ctx, "tcp", addr, nil)
	if err != nil {
		return xdr.ReplyHeader{}, err
	}
	defer c.Close() //nolint:errcheck // nothing is awaited
	return null(ctx, c, nfs3.Program)
}

// config is that of calls to NFS.
func (d *doctor) config() *transport.Config {
	return &transport.Config{TLS: transport.TLS{Config: d.TLS}, GSS: transport.GSS{Client: d.GSS}}
}

// caller connects to NFS.
func (d *doctor) caller(ctx context.Context) (rpc.Caller, error) {
	if d.URL.Scheme == nfsclient.SchemeTCP {
		return transport.DialStream(ctx, "tcp", d.URL.Addr(), d.config())
	}
	if d.Dial != nil {
		conn, err := d.Dial(ctx, d.URL.Addr())
		if err != nil {
			return nil, err
		}
		return transport.NewClient(ctx, conn, d.config())
	}
	return transport.Dial(ctx, "tcp", d.URL.Addr(), d.config())
}

// device checks that a card of this machine leads to the server, which accepts the connection.
func (d *doctor) device(ctx context.Context) Result {
	c, err := d.caller(ctx)
	if err == nil {
		_ = c.Close() // nothing was sent on it
		return good("the device connects to %s", d.URL.Addr())
	}
	if oe, ok := errors.AsType[*rpc.OpError](err); ok && oe.Rejected() {
		return judge(&mpa.Reply{Frame: mpa.Frame{Rejected: true}})
	}
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	if oe, ok := errors.AsType[*net.OpError](err); ok && oe.Net == "rdma" && !late { // it says what to do
		return bad("", "%s: %v", d.URL.Addr(), oe.Err)
	}
	r := unreachable(d.URL.Addr(), err, "the server (--listen)")
	if strings.HasPrefix(r.Fix, "open TCP port") {
		r.Fix = strings.Replace(r.Fix, "open ", "open UDP port 4791 (RoCE) or ", 1)
	}
	return r
}

// over is how files are reached.
func (d *doctor) over() string {
	how := "RDMA"
	if d.URL.Scheme == nfsclient.SchemeTCP {
		how = "TCP"
	}
	if d.TLS != nil {
		how += " with TLS"
	}
	return how
}

// tls shakes hands, and makes the first call: a server refuses the certificate of a client after the handshake.
func (d *doctor) tls(ctx context.Context) Result {
	c, err := d.caller(ctx)
	if err == nil {
		defer c.Close() //nolint:errcheck // nothing is awaited
		_, err = null(ctx, c, nfs3.Program)
	}
	switch {
	case err == nil:
		s := c.(interface{ TLS() *tls.ConnectionState }).TLS()
		return good("TLS 1.3; the certificate of %s is valid until %s", s.PeerCertificates[0].Subject, s.PeerCertificates[0].NotAfter.Format(time.DateOnly))
	case errors.Is(err, rpc.ErrNoTLS):
		return bad("start it with a certificate (nfsdemo serve --tls-cert). Linux's server needs tlshd (ktls-utils) and a kernel from 6.4 on",
			"the server does not offer TLS on %s", d.URL.Addr())
	}
	msg, fix := err.Error(), "see the log of the server"
	if i := strings.LastIndex(msg, " ("); i > 0 && strings.HasSuffix(msg, ")") { // what to do stands behind it
		msg, fix = msg[:i], msg[i+2:len(msg)-1]
	}
	return bad(fix, "%s", strings.TrimPrefix(msg, "transport: "))
}

// kerberos makes a context, and calls NULL in it, after rpc.
func (d *doctor) kerberos(ctx context.Context) Result {
	if r := d.rpc(ctx); r.State == Failed {
		return r
	}
	c, err := d.caller(ctx)
	if err != nil {
		return bad("see the log of the server", "%v", err)
	}
	defer c.Close() //nolint:errcheck // nothing is awaited
	var reply rpc.Reply
	defer reply.Release()
	err = c.Do(ctx, &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version, Cred: xdr.Auth{Flavor: xdr.RPCSECGSS}}, &reply)
	if err == nil {
		err = reply.Header.Err()
	}
	if e, ok := errors.AsType[*krb5.Error](err); ok {
		return bad(e.Fix(), "%s", e.What())
	}
	switch e, refused := errors.AsType[*xdr.RPCStatusError](err); {
	case err == nil:
		r := good("the server answers NFSv3 over %s, and has proved to be nfs/%s", d.over(), d.URL.Host)
		if d.URL.Scheme == nfsclient.SchemeRDMA && !d.URL.TLS {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(d.URL.Host, "2049"))
			if err != nil {
				return doubtful("serve NFS/TCP on port 2049 too (nfsdemo serve --tcp :2049)",
					"%s, but Linux's rpc.gssd makes contexts over TCP on port 2049, which cannot be reached", r.Detail)
			}
			_ = c.Close() // nothing was sent on it
		}
		return r
	case refused && e.AuthStat == xdr.AuthBadCred:
		return bad("start it with a keytab (nfsdemo serve --keytab)", "the server has no Kerberos")
	}
	return bad("see the log of the server", "%v", err)
}

// rpc calls NULL.
func (d *doctor) rpc(ctx context.Context) Result {
	c, err := d.caller(ctx)
	if err != nil {
		return bad("see the log of the server: it has accepted a start-up without CRC before this one", "%v", err)
	}
	defer c.Close() //nolint:errcheck // nothing is awaited
	h, err := null(ctx, c, nfs3.Program)
	switch e, refused := errors.AsType[*rpc.RPCError](err); {
	case refused && e.Reason == rpc.ReasonVersion:
		return bad("switch version 1 of RPC-over-RDMA (RFC 8166) on at the server", "%v", err)
	case err != nil && ctx.Err() != nil:
		return bad("restart the server; its log may say what it waits for", "the server does not answer NULL within %v", d.Timeout)
	case err != nil:
		return bad("see the log of the server", "NULL: %v", err)
	case h.Err() == nil:
		return good("the server answers NFSv3 over %s", d.over())
	case !h.Denied && h.Accept == xdr.ProgUnavail:
		return bad("name the port of the NFS server, usually 20049", "there is an RPC server on %s, but it does not serve NFS", d.URL.Addr())
	case !h.Denied && h.Accept == xdr.ProgMismatch:
		return bad("mount with the version that it serves (-o vers=4.1), or switch NFSv3 on at the server", "the server has NFS versions %d to %d, not 3", h.Low, h.High)
	case !h.Denied && h.Accept == xdr.SystemErr:
		return bad("start the server behind the proxy, and look at the proxy's log", "the server is out of order (SYSTEM_ERR); a proxy says so when its own server is away")
	}
	return bad("see the log of the server", "NULL: %v", h.Err())
}

// mountd finds MOUNT over TCP, which mount.nfs asks first.
func (d *doctor) mountd(ctx context.Context) Result {
	var err error
	how := ""
	if d.port == 0 {
		// Half of the time: a firewall may drop what is for rpcbind, and let MOUNT through.
		ask, cancel := context.WithTimeout(ctx, d.Timeout/2)
		if d.port, err = d.registered(ask, mount3.Program, mount3.Version); err == nil {
			how = ", says rpcbind"
			_, err := d.registered(ask, lockd.NLMProgram, lockd.Version4)
			d.locks = err == nil
		}
		cancel()
	}
	if d.port == 0 {
		d.port, how = 20048, ", the usual one, since rpcbind does not name one"
	}
	addr := net.JoinHostPort(d.URL.Host, strconv.Itoa(d.port))
	c, err := transport.DialStream(ctx, "tcp", addr, nil)
	if err != nil {
		r := unreachable(addr, err, "MOUNT (nfsdemo serve --mount-listen, or rpc.mountd)")
		r.Detail = fmt.Sprintf("MOUNT, port %d%s: %s", d.port, how, r.Detail)
		r.Fix = strings.Replace(r.Fix, "name its port: nfs+rdma://HOST:PORT/EXPORT", "name its port: nfs+rdma://HOST/EXPORT?mountport=N", 1)
		return r
	}
	defer c.Close() //nolint:errcheck // nothing is awaited
	h, err := null(ctx, c, mount3.Program)
	if err == nil {
		err = h.Err()
	}
	if err != nil {
		return bad("name the port of MOUNT: nfs+rdma://HOST/EXPORT?mountport=N", "port %d%s is not MOUNT version 3: %v", d.port, how, err)
	}
	return good("port %d%s", d.port, how)
}

// registered asks rpcbind for the port of a program over TCP.
func (d *doctor) registered(ctx context.Context, prog, vers uint32) (int, error) {
	rpcb := net.JoinHostPort(d.URL.Host, strconv.Itoa(d.Rpcbind))
	at, err := rpcbind.LookupAt(ctx, rpcb, prog, vers, rpcbind.NetTCP)
	if errors.Is(err, rpcbind.ErrNotRegistered) {
		at, err = rpcbind.LookupAt(ctx, rpcb, prog, vers, rpcbind.NetTCP6)
	}
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// cred is the identity of the calls.
func (d *doctor) cred() *xdr.SysCred {
	if d.Cred != nil {
		return d.Cred
	}
	return nfsclient.ProcessCred()
}

// maxListed bounds the exports that are named in a sentence.
const maxListed = 32

// mountCaller connects to MOUNT as mount.nfs does, from a port below 1024, if this process may have one.
func (d *doctor) mountCaller(ctx context.Context) (*transport.StreamClient, error) {
	addr := net.JoinHostPort(d.URL.Host, strconv.Itoa(d.port))
	conn, err := nfsclient.DialReserved(ctx, addr)
	if d.reserved = err == nil; !d.reserved {
		return transport.DialStream(ctx, "tcp", addr, nil)
	}
	c, err := transport.NewStreamClient(ctx, conn, nil)
	if err != nil {
		_ = conn.Close() // the first error counts
	}
	return c, err
}

// export mounts the path.
func (d *doctor) export(ctx context.Context) Result {
	c, err := d.mountCaller(ctx)
	if err != nil {
		return bad("see the log of the server", "MOUNT: %v", err)
	}
	defer c.Close() //nolint:errcheck // nothing is awaited
	m := nfsclient.NewMounter(c, d.cred())
	var list []string
	exports, listErr := m.Exports(ctx)
	for _, e := range exports {
		list = append(list, e.Dir)
	}
	have := "the server exports " + strings.Join(list[:min(len(list), maxListed)], ", ")
	if more := len(list) - maxListed; more > 0 {
		have += fmt.Sprintf(" and %d more", more)
	}
	if len(list) == 0 {
		have = "the server exports nothing"
	}
	if listErr != nil {
		have = "the server does not list its exports"
	}
	if d.URL.Path == "/" && len(list) > 0 && list[0] != "/" {
		d.URL = d.URL.WithPath(list[0]) // no export was named: the first will do
	}
	_, err = m.Mount(ctx, d.URL.Path)
	switch me, refused := errors.AsType[*nfsclient.MountError](err); {
	case err == nil:
		_ = m.Unmount(ctx, d.URL.Path) // the server's list is only for people
		return good("%s can be mounted", d.URL.Path)
	case refused && errors.Is(err, fs.ErrPermission) && !d.reserved:
		d.unsure = true
		return doubtful("ask as root, as mount does: sudo nfsdemo doctor. If it is refused then too, admit this machine in the server's exports",
			"the server refuses %s to a port of 1024 or above (%s), as most do; a port below 1024 is for root", d.URL.Path, me.Status.String())
	case refused && errors.Is(err, fs.ErrPermission):
		return bad("admit this machine in the server's exports", "the server refuses %s to this machine (%s)", d.URL.Path, me.Status.String())
	case refused && me.Status == mount3.ErrIO:
		return bad("look after its disk: nfsdemo exports and /readyz of the server say why, and it is served as soon as it is back",
			"the server has the export %s, but what it serves there is away (%s)", d.URL.Path, me.Status.String())
	case refused && errors.Is(err, fs.ErrNotExist):
		return bad("name one of the exports, or export this directory", "the server has no export %s: %s", d.URL.Path, have)
	case refused:
		return bad("see the log of the server", "the server refuses %s (%s)", d.URL.Path, me.Status.String())
	}
	return bad("see the log of the server", "MNT: %v", err)
}

// files reads the root of the export.
func (d *doctor) files(ctx context.Context) Result {
	if d.unsure {
		return Result{State: Skipped, Detail: "only root can mount"}
	}
	u := *d.URL
	u.MountPort = d.port
	c, err := nfsclient.Dial(ctx, &u, &nfsclient.Config{ReservedPort: d.reserved, Transport: d.config(), DialRDMA: d.Dial, Cred: d.cred(), DialTimeout: d.Timeout, Jukebox: -1})
	if err != nil {
		return bad("see the log of the server", "%v", err)
	}
	defer c.Close() //nolint:errcheck // nothing is open
	n, err := c.Lookup(ctx, u.Path)
	if err == nil && n.IsDir() {
		for _, err = range c.Entries(ctx, n) {
			break // one is enough
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return doubtful("look as a user who may read it (nfsdemo doctor as that user); the server may map root to nobody", "uid %d may not read %s", d.cred().UID, u.Path)
	case errors.Is(err, nfs3.ErrJukebox):
		return bad("wait, or start the server behind the proxy", "the server asks to try again later")
	case err != nil:
		return bad("see the log of the server", "%v", err)
	}
	return good("%s can be read over %s", u.Path, d.over())
}

// machine looks at what this machine needs for a mount by its kernel. root is "/".
func machine(root string, tls, rdma, gss bool) []Result {
	m := local{root: root, release: strings.TrimSpace(read(root, "proc/sys/kernel/osrelease"))}
	if m.release == "" {
		return []Result{{Check: "kernel", State: Skipped, Detail: "this is not Linux: only Linux mounts NFS over RDMA; nfsdemo ls, cp and cat work here", Local: true}}
	}
	m.distribution()
	var list []Result
	for _, c := range []struct {
		name  string
		look  func() Result
		needs bool
	}{
		{"kernel", func() Result {
			return Result{State: Skipped, Detail: "Linux has TLS only for NFS over TCP: look at nfs:// for a mount; nfsdemo ls, cp and cat work here"}
		}, tls && rdma},
		{"kernel", m.tls, tls && !rdma},
		{"tlshd", m.tlshd, tls && !rdma},
		{"siw", m.siw, rdma && !tls},
		{"device", m.device, rdma && !tls},
		{"rpcrdma", m.rpcrdma, rdma && !tls},
		{"rpc.gssd", m.gssd, gss},
		{"mount.nfs", m.helper, !tls || !rdma},
	} {
		if c.needs {
			r := c.look()
			r.Check, r.Local = c.name, true
			list = append(list, r)
		}
	}
	return list
}

// local is what is known about this machine.
type local struct {
	root, release string
	distro        string // debian, ubuntu, fedora or ""
}

// read returns the content of a file, "" if it cannot be read.
func read(root, name string) string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return ""
	}
	return string(b)
}

func (m *local) exists(names ...string) bool {
	for _, name := range names {
		if list, err := filepath.Glob(filepath.Join(m.root, name)); err == nil && len(list) > 0 {
			return true
		}
	}
	return false
}

// distribution reads os-release(5). Derivatives name what they are like.
func (m *local) distribution() {
	var ids []string
	for line := range strings.Lines(read(m.root, "etc/os-release")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "ID" || key == "ID_LIKE" {
			ids = append(ids, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	for _, d := range []string{"ubuntu", "debian", "fedora"} { // Ubuntu is like Debian
		if slices.Contains(ids, d) {
			m.distro = d
			return
		}
	}
}

// choose returns the advice for the distribution, or all of it.
func (m *local) choose(debian, ubuntu, fedora string) string {
	switch m.distro {
	case "debian":
		return debian
	case "ubuntu":
		return ubuntu
	case "fedora":
		return fedora
	}
	return "Debian: " + debian + "; Ubuntu: " + ubuntu + "; Fedora: " + fedora
}

// module reports whether the kernel has a module, loaded or not.
func (m *local) module(name string) (has, loaded bool) {
	loaded = m.exists("sys/module/" + name)
	dir := "lib/modules/" + m.release
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		for line := range strings.Lines(read(m.root, dir+"/"+list)) {
			file, _, _ := strings.Cut(line, ":")
			base := filepath.Base(strings.TrimSpace(file))
			if stem, _, _ := strings.Cut(base, ".ko"); strings.ReplaceAll(stem, "-", "_") == name {
				return true, loaded
			}
		}
	}
	return loaded, loaded
}

// siw checks for the software iWARP driver.
func (m *local) siw() Result {
	has, loaded := m.module("siw")
	switch {
	case loaded:
		return good("the kernel %s has siw, and it is loaded", m.release)
	case !has:
		return bad(m.choose(
			"no kernel of Debian has it; build it, as root: sh /usr/share/nfsdemo/build-siw (from the package; packaging/build-siw in the source), or mount over TCP",
			"apt install linux-modules-extra-"+m.release,
			"dnf install kernel-modules-"+m.release+" kernel-modules-extra-"+m.release,
		), "the kernel %s has no siw, the software iWARP driver", m.release)
	}
	return good("the kernel %s has siw", m.release)
}

// device checks for an iWARP device.
func (m *local) device() Result {
	var names []string
	list, _ := filepath.Glob(filepath.Join(m.root, "sys/class/infiniband/*")) // the pattern is good
	for _, dir := range list {
		if strings.Contains(read(dir, "node_type"), "RNIC") {
			names = append(names, filepath.Base(dir))
		}
	}
	if len(names) > 0 {
		return good("iWARP device %s", strings.Join(names, ", "))
	}
	fix := "as root: modprobe siw && rdma link add siw0 type siw netdev eth0 (the interface that leads to the server; lo if that is this machine); at each start: systemctl enable siw@eth0 (from the package)"
	if !m.exists("sbin/rdma", "usr/sbin/rdma", "bin/rdma", "usr/bin/rdma") {
		fix += "; rdma comes with " + m.choose("apt install iproute2", "apt install iproute2", "dnf install iproute")
	}
	return bad(fix, "there is no iWARP device")
}

// rpcrdma checks for the RDMA transport of the kernel's RPC.
func (m *local) rpcrdma() Result {
	has, loaded := m.module("rpcrdma")
	switch {
	case loaded:
		return good("NFS over RDMA is loaded")
	case !has:
		return bad(m.choose(
			"apt install linux-image-"+runtime.GOARCH+", and reboot into it",
			"apt install linux-modules-extra-"+m.release,
			"dnf install kernel-modules-"+m.release,
		), "the kernel %s has no rpcrdma, the RDMA transport of NFS", m.release)
	}
	return good("the kernel has NFS over RDMA; mount loads it")
}

// tls checks for TLS in the kernel, which mount -o xprtsec needs.
func (m *local) tls() Result {
	var major, minor int
	_, _ = fmt.Sscanf(m.release, "%d.%d", &major, &minor) // 0 is too old
	has, _ := m.module("tls")
	switch {
	case major < 6 || major == 6 && minor < 5:
		return bad("use Linux 6.5 or later (Debian 13, or linux-image of bookworm-backports), or nfsdemo ls, cp and cat", "the kernel %s is too old for NFS with TLS", m.release)
	case !has:
		return bad(m.choose("apt install linux-image-"+runtime.GOARCH+", and reboot into it", "apt install linux-modules-extra-"+m.release, "dnf install kernel-modules-"+m.release),
			"the kernel %s has no module tls", m.release)
	}
	return good("the kernel %s has TLS for NFS; mount loads it", m.release)
}

// tlshd checks for the program that shakes hands for the kernel, and for whom it trusts.
func (m *local) tlshd() Result {
	trusts := false
	for line := range strings.Lines(read(m.root, "etc/tlshd.conf") + "\n" + read(m.root, "etc/tlshd/config")) {
		trusts = trusts || strings.HasPrefix(strings.TrimSpace(line), "x509.truststore")
	}
	switch {
	case !m.runs("tlshd"):
		return bad("as root: "+m.choose("apt install ktls-utils (from Debian 13 on)", "apt install ktls-utils", "dnf install ktls-utils")+"; systemctl enable --now tlshd",
			"tlshd, which shakes hands for the kernel, does not run")
	case !trusts:
		return doubtful("name the CA as x509.truststore of [authenticate.client] in /etc/tlshd.conf, and restart tlshd", "tlshd trusts the CAs of the system only")
	}
	return good("tlshd runs")
}

// runs reports whether there is a process of that name.
func (m *local) runs(name string) bool {
	list, _ := filepath.Glob(filepath.Join(m.root, "proc/[0-9]*/comm")) // the pattern is good
	return slices.ContainsFunc(list, func(file string) bool {
		b, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(b)) == name
	})
}

// gssd checks for the program that gets tickets for the kernel.
func (m *local) gssd() Result {
	if !m.runs("rpc.gssd") {
		return bad("as root: "+m.choose("apt install nfs-common", "apt install nfs-common", "dnf install nfs-utils")+"; give this machine a key, host/NAME in /etc/krb5.keytab; systemctl start rpc-gssd",
			"rpc.gssd, which gets tickets for the kernel, does not run")
	}
	return good("rpc.gssd runs")
}

// helper checks for mount.nfs.
func (m *local) helper() Result {
	if m.exists("sbin/mount.nfs", "usr/sbin/mount.nfs") {
		return good("mount.nfs is installed")
	}
	return bad(m.choose("apt install nfs-common", "apt install nfs-common", "dnf install nfs-utils"), "mount.nfs is not installed")
}
