package cli

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/internal/users"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/gss/krb5"
	"github.com/stag-rdma/stag/xdr"
)

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
