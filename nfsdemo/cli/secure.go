package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/internal/users"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/gss/krb5"
	"github.com/stag-rdma/stag/xdr"
)

// tlsFiles are the files of TLS at one end; all may be empty.
type tlsFiles struct {
	cert, key string // of this end
	ca        string // trusted to sign certificates of the other end
}

// serverFlags declares the flags of a server, and says what clients may do then.
func (f *tlsFiles) serverFlags(cmd *cobra.Command, may string) {
	flags := cmd.Flags()
	flags.StringVar(&f.cert, "tls-cert", "", "`file` (PEM) of the certificate of this server: "+may+"; SIGHUP reads it again")
	flags.StringVar(&f.key, "tls-key", "", "`file` (PEM) of its key")
	flags.StringVar(&f.ca, "tls-client-ca", "", "`file` (PEM) of the CAs that sign certificates of clients; SIGHUP reads it again and ends sessions that it no longer covers")
}

// clientFlags declares the flags of a client.
func (f *tlsFiles) clientFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.ca, "tls-ca", "", "call with TLS over nfs:// (RFC 9289) or nfs+rdma+tls://, and nothing but MOUNT in clear; trust the CAs in this `file` (PEM)")
	flags.StringVar(&f.cert, "tls-cert", "", "`file` (PEM) of a certificate of this machine for that")
	flags.StringVar(&f.key, "tls-key", "", "`file` (PEM) of its key")
}

// client returns the TLS of a client, nil if it has no CA.
func (f *tlsFiles) client() (*tls.Config, error) {
	switch {
	case f.ca != "":
		return f.read()
	case f.cert != "" || f.key != "":
		return nil, usagef("--tls-cert and --tls-key need --tls-ca")
	}
	return nil, nil //nolint:nilnil // documented
}

// server returns the TLS of a server, nil if it has no certificate.
func (f *tlsFiles) server() (*serverTLS, error) {
	switch {
	case f.cert != "":
		return &serverTLS{files: *f}, nil
	case f.key != "" || f.ca != "":
		return nil, usagef("--tls-key and --tls-client-ca need --tls-cert")
	}
	return nil, nil //nolint:nilnil // documented
}

// read makes a configuration of the files, with the CAs as RootCAs and as ClientCAs.
func (f *tlsFiles) read() (*tls.Config, error) {
	c := new(tls.Config)
	if f.cert != "" || f.key != "" {
		if f.cert == "" || f.key == "" {
			return nil, usagef("--tls-cert and --tls-key: give both or neither")
		}
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s: %w", f.cert, err)
		}
		if end := pair.Leaf.NotAfter; time.Now().After(end) { // the other end would say no more than that it is bad
			return nil, fmt.Errorf("--tls-cert %s: it has expired at %s: renew it", f.cert, end.Format(time.DateTime))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if f.ca == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, err
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate (PEM) of a CA", f.ca)
	}
	c.ClientCAs, c.ClientAuth = c.RootCAs, tls.VerifyClientCertIfGiven // an export may want no certificate
	return c, nil
}

// serverTLS is the TLS of a server, which reads its files again. A nil *serverTLS is: off.
type serverTLS struct {
	files tlsFiles
	all   bool // every client needs TLS, and a certificate if there are CAs of clients; else each export says it
	now   atomic.Pointer[tls.Config]
}

// load reads the files. If it returns an error, all stays as it was.
func (t *serverTLS) load() error {
	if t == nil {
		return nil
	}
	c, err := t.files.read()
	if err == nil {
		if t.all && t.files.ca != "" {
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
		t.now.Store(c)
	}
	return err
}

// config is for a server that takes calls in clear too, unless all is set.
func (t *serverTLS) config() transport.TLS {
	if t == nil {
		return transport.TLS{}
	}
	return transport.TLS{AllowClear: !t.all, Config: &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.now.Load(), nil },
		VerifyConnection:   t.verify,
	}}
}

// web returns the scheme of --status, and its listener: HTTP shows the names of clients and exports.
func (t *serverTLS) web(l net.Listener) (string, net.Listener) {
	if t == nil || l == nil {
		return "http", l
	}
	return "https", tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := t.now.Load().Clone()
			c.ClientAuth, c.MinVersion, c.SessionTicketsDisabled = tls.NoClientCert, tls.VersionTLS13, true
			return c, nil
		},
	})
}

// verify asks whether a client that has shown a certificate is still covered by the CAs.
func (t *serverTLS) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return nil
	}
	opts := x509.VerifyOptions{Roots: t.now.Load().ClientCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if opts.Roots == nil { // which Verify takes for the CAs of the system
		return errors.New("no CA of clients is trusted any more")
	}
	for _, c := range s.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(opts)
	return err
}

// check refuses an export that nobody could use.
func (t *serverTLS) check(list []exports.Export) error {
	can := server.XprtNone
	if t != nil {
		can |= server.XprtTLS
		if t.files.ca != "" {
			can |= server.XprtMTLS
		}
	}
	for _, e := range list {
		all := e.XprtSec
		for _, c := range e.Clients {
			if len(c.Certs) > 0 && can&server.XprtMTLS == 0 {
				return usagef("export %s: clients by certificate (tls:%s) need --tls-client-ca", e.Path, c.Certs[0])
			}
			if c.XprtSec != 0 && c.XprtSec&can == 0 {
				all = c.XprtSec
			}
		}
		if all != 0 && all&can == 0 {
			return usagef("export %s: xprtsec=%v needs --tls-cert, and mtls --tls-client-ca too", e.Path, all)
		}
	}
	return nil
}

// kerberos is the Kerberos of a server, which reads its keytab again. A nil *kerberos is: off.
type kerberos struct {
	file  string
	said  *atomic.Pointer[exports.File] // of principals; nil: nothing
	users *users.Users
	now   atomic.Pointer[krb5.Keytab]
}

// load reads the keytab, and takes what the file of exports says of principals. If it returns an error, all stays as it was.
func (k *kerberos) load() error {
	if k == nil {
		return nil
	}
	kt, err := krb5.LoadKeytab(k.file)
	if err != nil {
		return err
	}
	k.now.Store(kt)
	realms, names := kt.Realms(), map[string]string(nil)
	if f := k.said.Load(); f != nil {
		names = f.Principals
		if f.Realms != nil {
			realms = f.Realms
		}
	}
	k.users.Set(realms, names)
	return nil
}

// user returns who a principal is.
func (k *kerberos) user(p gss.Principal) (server.User, bool) {
	if k == nil {
		return server.User{}, false
	}
	return k.users.Of(p)
}

// accept begins a context with the keys of now.
func (k *kerberos) accept() gss.Handshake { return k.now.Load().Accept() }

// check refuses an export that nobody could use.
func (k *kerberos) check(list []exports.Export) error {
	if k != nil {
		return nil
	}
	bad := func(sec []xdr.AuthFlavor) bool { return len(sec) > 0 && !slices.Contains(sec, xdr.AuthSys) }
	for _, e := range list {
		if bad(e.Sec) && len(e.Clients) == 0 || slices.ContainsFunc(e.Clients, func(c server.Client) bool { return bad(c.Sec) }) {
			return usagef("export %s: sec=%s needs --keytab", e.Path, secName(e.Sec))
		}
	}
	return nil
}

// flavorsOf returns how users may be known to an export, best first, to some of its clients at least.
func flavorsOf(e *server.Export) (all []xdr.AuthFlavor) {
	list := [][]xdr.AuthFlavor{e.Sec}
	if len(e.Clients) > 0 {
		list = nil
	}
	for _, c := range e.Clients {
		list = append(list, c.Sec)
	}
	for _, sec := range list {
		if len(sec) == 0 {
			sec = []xdr.AuthFlavor{xdr.AuthSys}
		}
		all = append(all, sec...)
	}
	return all
}

var secNames = []struct {
	flavor  xdr.AuthFlavor
	name    string
	service gss.Service
}{
	{xdr.AuthSys, "sys", 0},
	{server.Krb5, "krb5", gss.None},
	{server.Krb5i, "krb5i", gss.Integrity},
	{server.Krb5p, "krb5p", gss.Privacy},
}

// secName writes flavors as exports(5) does.
func secName(list []xdr.AuthFlavor) string {
	var words []string
	for _, f := range list {
		for _, s := range secNames {
			if s.flavor == f {
				words = append(words, s.name)
			}
		}
	}
	return strings.Join(words, ":")
}

// secOf returns what makes contexts with the server of a name, nil for AUTH_SYS.
func secOf(sec, host string) (*gss.Client, error) {
	for _, s := range secNames {
		switch {
		case s.name != sec:
		case s.service == 0:
			return nil, nil
		default:
			return gss.NewClient(s.service, krb5.FromCache(host)), nil
		}
	}
	return nil, usagef("--sec %q: want sys, krb5, krb5i or krb5p", sec)
}
