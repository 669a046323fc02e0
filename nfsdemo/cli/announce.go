package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stag-rdma/stag/internal/cliout"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
)

// readyJSON is the output of serve --json. The port file has the same content in another form.
type readyJSON struct {
	Export  string       `json:"export"` // the first one
	RDMA    string       `json:"rdma,omitempty"`
	Mount   string       `json:"mount,omitempty"`
	TCP     string       `json:"tcp,omitempty"`
	Push    string       `json:"push,omitempty"`    // for commit connections
	Reply   string       `json:"replies,omitempty"` // for the connections of reply logs
	Status  string       `json:"status,omitempty"`  // HTTP
	PID     int          `json:"pid"`
	Locks   string       `json:"locks,omitempty"` // "on", or "off" and why
	Exports []exportJSON `json:"exports"`
	Line    string       `json:"line,omitempty"` // mount command
}

// exportJSON describes an export.
type exportJSON struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
}

// authority says who decides in a file system; "" if there is nothing to say.
func authority(fsys backend.FS) string {
	if d, ok := fsys.(*dir.FS); ok {
		return d.Authority()
	}
	return ""
}

// announce prints where the service is, and how to mount it.
func (a *app) announce(s *service, f *serveFlags) error {
	r := readyJSON{Export: s.path, RDMA: addrOf(s.rdma), Mount: addrOf(s.mount), TCP: addrOf(s.tcp), PID: os.Getpid()}
	r.Push, r.Reply, r.Status = s.push.addr(), s.reply.addr(), s.status.addr()
	r.Locks = s.locks.String()
	list := s.set.exports()
	r.Line = mountLine(&r, &list[0])
	if f.portFile != "" {
		if err := writePortFile(f.portFile, &r); err != nil {
			return err
		}
	}
	for i := range list {
		r.Exports = append(r.Exports, exportJSON{list[i].Path, modeOf(&list[i])})
	}
	if s.log != nil {
		if few := descriptorsWarning(); few != "" {
			s.log.Warn("descriptors", "limit", few)
		}
		if f.limits.why != "" {
			s.log.Info("memory", "limit", f.limits.why)
		}
		if why := s.locks.missing(); why != "" {
			s.log.Warn("locks are off", "why", why)
		}
		s.log.Info("serving", append([]any{"exports", s.paths(), "version", cliout.Version()}, r.addresses()...)...)
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(r)
	}
	for i := range list {
		if list[i].FS == nil {
			continue
		}
		fmt.Fprintf(a.stdout, "serving %s, %s\n", list[i].Path, modeOf(&list[i]))
		if text := authority(list[i].FS); text != "" {
			fmt.Fprintf(a.stdout, "  %s\n", text)
		}
		for _, says := range s.set.says(list[i].Path) {
			fmt.Fprintf(a.stdout, "  %s\n", says)
		}
	}
	for _, p := range s.set.away() {
		fmt.Fprintf(a.stdout, "not serving %s yet: %s\n", p.Export, p.Error)
	}
	if r.RDMA != "" && slices.ContainsFunc(list, func(e server.Export) bool {
		return believes([]server.Export{e}) && slices.Contains(flavorsOf(&e), xdr.AuthSys)
	}) {
		fmt.Fprintln(a.stdout, "  clients are believed: who reaches NFS/RDMA from another machine may claim any user but root; --allow says who does")
	}
	rdma := "nfs+rdma"
	if xprtSecOf(&list[0])&server.XprtNone == 0 {
		rdma = "nfs+rdma+tls"
	}
	for _, l := range []struct{ what, addr, url string }{
		{"NFS/RDMA", r.RDMA, rdma}, {"NFS/TCP", r.TCP, "nfs"}, {"MOUNT", r.Mount, ""}, {"push", r.Push, ""}, {"replies", r.Reply, ""}, {"status", r.Status, s.web},
	} {
		if l.addr == "" {
			continue
		}
		line := fmt.Sprintf("  %-8s  %s", l.what, l.addr)
		if l.url != "" {
			path := urlPath(s.path)
			if l.what == "status" {
				path = "/status"
			}
			line += "  " + l.url + "://" + reachable(l.addr) + path
		}
		fmt.Fprintln(a.stdout, line)
	}
	if r.RDMA != "" {
		fmt.Fprintf(a.stdout, "  CRC32C    %s\n", crcLine(f.crc))
	}
	if few := descriptorsWarning(); few != "" {
		fmt.Fprintf(a.stdout, "  files     %s\n", few)
	}
	if f.limits.why != "" {
		fmt.Fprintf(a.stdout, "  memory    %s\n", f.limits.why)
	}
	if r.Locks != "" {
		fmt.Fprintf(a.stdout, "  locks     %s\n", r.Locks)
	}
	if r.Line != "" {
		first := ""
		if strings.Contains(r.Line, "vers=3,rdma") {
			first = " (an iWARP device first: rdma link add siw0 type siw netdev eth0)"
		}
		fmt.Fprintf(a.stdout, "from Linux, as root%s:\n  %s\n", first, r.Line)
	}
	return nil
}

// fewDescriptors are less than connections and caches would take.
const fewDescriptors = 4096

// descriptorsWarning says that the process may open few; "" if not.
func descriptorsWarning() string {
	if n := dir.MaxDescriptors(); n < fewDescriptors {
		return fmt.Sprintf("only %d for connections and open files together: raise the limit (LimitNOFILE=, ulimit -Hn)", n)
	}
	return ""
}

// addresses are the addresses for the log.
func (r *readyJSON) addresses() (attrs []any) {
	for _, l := range [][2]string{{"rdma", r.RDMA}, {"tcp", r.TCP}, {"mount", r.Mount}, {"push", r.Push}, {"replies", r.Reply}, {"status", r.Status}} {
		if l[1] != "" {
			attrs = append(attrs, l[0], l[1])
		}
	}
	return attrs
}

// crcLine says when checksums are used. That the default leaves it to the client is a deviation from
// RFC 5044 Section 4.4, so it is not left unsaid.
func crcLine(m transport.CRCMode) string {
	switch m {
	case transport.CRCOn:
		return "always"
	case transport.CRCOff:
		return "only for clients that ask for it"
	case transport.CRCPeer:
	}
	return "as each client asks: Linux does not, nfsdemo does; --crc on: always"
}

// addrOf returns where a listener listens, "" if there is none.
func addrOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// xprtSecOf returns how connections may be protected that use an export, for some of its clients at least.
func xprtSecOf(e *server.Export) (all server.XprtSec) {
	of := func(x server.XprtSec) server.XprtSec {
		if x == 0 {
			x = server.XprtNone | server.XprtTLS | server.XprtMTLS
		}
		return x
	}
	if len(e.Clients) == 0 {
		return of(e.XprtSec)
	}
	for _, c := range e.Clients {
		x := of(c.XprtSec)
		if len(c.Certs) > 0 && len(c.Nets)+len(c.Names) == 0 {
			x &= server.XprtMTLS
		}
		all |= x
	}
	return all
}

// mountLine is the command that mounts the export e with the Linux kernel's client, which has TLS only on TCP.
func mountLine(r *readyJSON, e *server.Export) string {
	sec := xprtSecOf(e)
	addr, opts := r.RDMA, "vers=3,rdma"
	if addr == "" || sec&server.XprtNone == 0 {
		addr, opts = r.TCP, "vers=3,proto=tcp"
	}
	switch {
	case sec&server.XprtNone != 0:
	case sec&server.XprtTLS != 0:
		opts += ",xprtsec=tls"
	default:
		opts += ",xprtsec=mtls"
	}
	mount := r.Mount
	if mount == "" {
		mount = r.TCP // which also answers MOUNT
	}
	if addr == "" || mount == "" {
		return ""
	}
	if how := flavorsOf(e); !slices.Contains(how, xdr.AuthSys) {
		opts += ",sec=" + secName(how[:1])
	}
	host, port, _ := net.SplitHostPort(reachable(addr))
	_, mountPort, _ := net.SplitHostPort(mount)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	opts += ",port=" + port + ",mountport=" + mountPort + ",mountproto=tcp"
	if r.Locks != locksOn {
		opts += ",nolock" // else locks wait for ever
	}
	return fmt.Sprintf("mount -t nfs -o %s %s /mnt", opts, shellQuote(host+":"+r.Export))
}

// reachable replaces an unspecified address by this machine's name.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host != "" && !ip.IsUnspecified() { // a name too
		return addr
	}
	if name, err := os.Hostname(); err == nil {
		host = name
	}
	return net.JoinHostPort(host, port)
}

// shellQuote quotes s for sh if necessary.
func shellQuote(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:@%+=,[]", r)
	}
	for _, r := range s {
		if !safe(r) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}

// writePortFile writes the addresses atomically, so that nobody who waits for the file sees half
// of it.
func writePortFile(name string, r *readyJSON) error {
	text := "EXPORT=" + r.Export + "\nRDMA=" + r.RDMA + "\nMOUNT=" + r.Mount + "\nTCP=" + r.TCP + r.pushLines() + r.replyLine() + "\nPID=" + strconv.Itoa(r.PID) + "\n"
	tmp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".tmp")
	err := os.WriteFile(tmp, []byte(text), 0o644)
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		return fmt.Errorf("--port-file %s: %w", name, bare(err))
	}
	return nil
}
