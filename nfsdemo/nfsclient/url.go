package nfsclient

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Scheme is the scheme of a URL, which selects the transport. The client code above it is the same for
// both.
type Scheme string

// The two schemes.
const (
	SchemeRDMA Scheme = "nfs+rdma" // NFSv3 over RPC-over-RDMA (RFC 8267) on iWARP
	SchemeTCP  Scheme = "nfs"      // NFSv3 over record-marked TCP (RFC 5531 Section 11)
)

// Default ports: RFC 5666 Section 12 for RDMA, RFC 1813 Section 2.1 for TCP.
const (
	defaultPortRDMA = 20049
	defaultPortTCP  = 2049
)

// defaultPort returns the port of a URL that names none, 0 for an unknown scheme.
func (s Scheme) defaultPort() int {
	switch s {
	case SchemeRDMA:
		return defaultPortRDMA
	case SchemeTCP:
		return defaultPortTCP
	}
	return 0
}

// URL is a parsed location of a file on an NFSv3 server.
type URL struct {
	Scheme    Scheme
	TLS       bool   // nfs+rdma+tls: within TLS (transport.Config.TLS), outside any RFC; over nfs, Config.Transport.TLS says it
	Host      string // name or address, without brackets
	Port      int    // NFS port, 1..65535; defaults are filled in
	MountPort int    // TCP port of MOUNT, 1..65535; 0: see Dial
	Path      string // absolute and clean, at least "/"; the export and the path below it
	DirHint   bool   // the text ended in "/": the user means a directory

	given bool // the text names the port
}

// URLError says what is wrong with a URL, for the user who typed it.
type URLError struct {
	URL    string // as given
	Reason string
}

// Error implements error.
func (e *URLError) Error() string { return fmt.Sprintf("%s: %s", e.URL, e.Reason) }

// IsURL reports whether s looks like a URL of any scheme. A local path with
// "://" in it can be given as ./path.
func IsURL(s string) bool {
	i := strings.Index(s, "://")
	if i <= 0 {
		return false
	}
	return strings.IndexFunc(s[:i], func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '+' && r != '-' && r != '.'
	}) < 0
}

// ParseURL parses nfs+rdma://host[:port]/export/path, nfs+rdma+tls://… and
// nfs://…. Query keys: nfsport (the same as :port),
// mountport (TCP port of MOUNT). Percent-encoding is decoded; "." and ".." are
// resolved in the text. Errors are *URLError.
func ParseURL(s string) (*URL, error) {
	fail := func(format string, args ...any) (*URL, error) {
		return nil, &URLError{URL: s, Reason: fmt.Sprintf(format, args...)}
	}
	raw, err := url.Parse(s)
	if err != nil {
		return fail("not a URL: %v", urlReason(err))
	}
	scheme, secure := strings.CutSuffix(strings.ToLower(raw.Scheme), "+tls")
	u := &URL{Scheme: Scheme(scheme), TLS: secure, Host: raw.Hostname()}
	switch {
	case u.Scheme.defaultPort() == 0, u.TLS && u.Scheme != SchemeRDMA:
		return fail("scheme %q is not supported: use nfs+rdma://, nfs+rdma+tls:// or nfs://", raw.Scheme)
	case u.Host == "":
		return fail("no host: write %s://host/export/path", u.Scheme)
	case strings.Contains(u.Host, ":") && !strings.HasPrefix(raw.Host, "["):
		return fail("an IPv6 address needs brackets: write %s://[2001:db8::1]:%d/export/path", u.Scheme, u.Scheme.defaultPort())
	case raw.User != nil:
		return fail("user names are not part of NFS URLs: use --uid and --gid")
	case raw.Fragment != "":
		return fail(`"#" starts a fragment: write it as %%23 in file names`)
	case raw.Path == "":
		return fail("no path: write %s://%s/export/path", u.Scheme, raw.Host)
	case strings.ContainsRune(raw.Path, 0):
		return fail("file names cannot contain a zero octet")
	}
	if err := u.setPorts(raw); err != nil {
		return fail("%v", err)
	}
	u.Path = path.Clean(raw.Path)
	u.DirHint = strings.HasSuffix(raw.Path, "/")
	return u, nil
}

// urlReason strips the URL that package url repeats in its errors.
func urlReason(err error) error {
	if e, ok := err.(*url.Error); ok { //nolint:errorlint // the outermost error only
		return e.Err
	}
	return err
}

// setPorts fills Port and MountPort from the authority and the query.
func (u *URL) setPorts(raw *url.URL) error {
	query, err := url.ParseQuery(raw.RawQuery)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	ports := map[string]int{}
	for key, values := range query {
		if key != "nfsport" && key != "mountport" {
			return fmt.Errorf("query key %q is unknown: nfsport and mountport are accepted", key)
		}
		if ports[key], err = parsePort(values[len(values)-1]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	u.Port, u.MountPort = u.Scheme.defaultPort(), ports["mountport"]
	u.given = raw.Port() != "" || ports["nfsport"] != 0
	if p := raw.Port(); p != "" {
		if u.Port, err = parsePort(p); err != nil {
			return err
		}
		if q := ports["nfsport"]; q != 0 && q != u.Port {
			return fmt.Errorf("port %d and nfsport=%d disagree: use only one of them", u.Port, q)
		}
	} else if q := ports["nfsport"]; q != 0 {
		u.Port = q
	}
	return nil
}

// parsePort accepts 1..65535.
func parsePort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q is not a number from 1 to 65535", s)
	}
	return int(n), nil
}

// Addr returns host:port of the NFS service, with brackets around IPv6.
func (u *URL) Addr() string { return net.JoinHostPort(u.Host, strconv.Itoa(u.Port)) }

// MountAddr returns host:port of the MOUNT service; MountPort must be set.
func (u *URL) MountAddr() string { return net.JoinHostPort(u.Host, strconv.Itoa(u.MountPort)) }

// String returns the URL in its shortest form, without default ports.
func (u *URL) String() string {
	raw := url.URL{Scheme: string(u.Scheme), Path: u.Path}
	if u.TLS {
		raw.Scheme += "+tls"
	}
	switch {
	case u.Port != u.Scheme.defaultPort():
		raw.Host = u.Addr()
	case strings.Contains(u.Host, ":"):
		raw.Host = "[" + u.Host + "]"
	default:
		raw.Host = u.Host
	}
	if u.MountPort != 0 {
		raw.RawQuery = "mountport=" + strconv.Itoa(u.MountPort)
	}
	return raw.String()
}

// WithPath returns a copy of u that names p on the same server.
func (u *URL) WithPath(p string) *URL {
	v := *u
	v.Path, v.DirHint = path.Clean("/"+p), false
	return &v
}

// SameServer reports whether u and v are reached through the same connection.
func (u *URL) SameServer(v *URL) bool {
	return u.Scheme == v.Scheme && u.TLS == v.TLS && u.Host == v.Host && u.Port == v.Port && u.MountPort == v.MountPort
}
