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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss/krb5"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

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
	if p, err := d.registered(ctx, nfs3.Program, nfs3.Version); err == nil && p != 0 && p != 2049 {
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
	switch h, err := d.overTCP(ctx); {
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

// null calls the NULL procedure of NFSv3.
func null(ctx context.Context, c rpc.Caller) (h xdr.ReplyHeader, err error) {
	var reply rpc.Reply
	defer reply.Release()
	err = c.Do(ctx, &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version}, &reply)
	return reply.Header, err
}

// overTCP calls NULL over TCP.
func (d *doctor) overTCP(ctx context.Context) (xdr.ReplyHeader, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Timeout)
	defer cancel()
	return d.nullAt(ctx, d.URL.Addr())
}

// nullAt calls NULL over TCP at an address.
func (d *doctor) nullAt(ctx context.Context, addr string) (xdr.ReplyHeader, error) {
	c, err := transport.DialStream(ctx, "tcp", addr, nil)
	if err != nil {
		return xdr.ReplyHeader{}, err
	}
	defer c.Close() //nolint:errcheck // nothing is awaited
	return null(ctx, c)
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
	return transport.Dial(ctx, "tcp", d.URL.Addr(), d.config())
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
		_, err = null(ctx, c)
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
	h, err := null(ctx, c)
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
		if d.port, err = d.registered(ctx, mount3.Program, mount3.Version); err == nil {
			how = ", says rpcbind"
		}
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
	var reply rpc.Reply
	defer reply.Release()
	err = c.Do(ctx, &rpc.Call{Prog: mount3.Program, Vers: mount3.Version}, &reply)
	if err == nil {
		err = reply.Header.Err()
	}
	if err != nil {
		return bad("name the port of MOUNT: nfs+rdma://HOST/EXPORT?mountport=N", "port %d%s is not MOUNT version 3: %v", d.port, how, err)
	}
	return good("port %d%s", d.port, how)
}

// registered asks rpcbind for the port of a program.
func (d *doctor) registered(ctx context.Context, prog, vers uint32) (int, error) {
	c, err := transport.DialStream(ctx, "tcp", net.JoinHostPort(d.URL.Host, strconv.Itoa(d.Rpcbind)), nil)
	if err != nil {
		return 0, err
	}
	defer c.Close() //nolint:errcheck // nothing is awaited
	return nfsclient.GetPort(ctx, c, prog, vers)
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
	c, err := nfsclient.Dial(ctx, &u, &nfsclient.Config{ReservedPort: d.reserved, Transport: d.config(), Cred: d.cred(), DialTimeout: d.Timeout, Jukebox: -1})
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
