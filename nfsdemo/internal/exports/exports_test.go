package exports_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

func TestParse(t *testing.T) {
	net := func(s string) netip.Prefix { return netip.MustParsePrefix(s) }
	for text, want := range map[string]server.Export{
		"/srv":                                {Path: "/srv", Secure: true},
		"/srv,ro":                             {Path: "/srv", Secure: true, ReadOnly: true},
		"/srv,insecure":                       {Path: "/srv"},
		"/srv,xprtsec=tls:mtls":               {Path: "/srv", Secure: true, XprtSec: server.XprtTLS | server.XprtMTLS},
		"/srv,xprtsec=none":                   {Path: "/srv", Secure: true, XprtSec: server.XprtNone},
		"/a,b,ro,rw":                          {Path: "/a,b", Secure: true},
		"/a,ro,b":                             {Path: "/a,ro,b", Secure: true},
		"/a=1,no_root_squash":                 {Path: "/a=1", Secure: true, Squash: server.SquashNone},
		"/srv,all_squash,anonuid=7,anongid=8": {Path: "/srv", Secure: true, Squash: server.SquashAll, AnonUID: 7, AnonGID: 8},
		"/srv,client=192.0.2.0/24,client=2001:db8::1,client=::ffff:192.0.2.9": {
			Path: "/srv", Secure: true, Clients: []server.Client{{
				Nets: []netip.Prefix{net("192.0.2.0/24"), net("2001:db8::1/128"), net("192.0.2.9/32")}, Secure: true,
			}},
		},
		"/srv,client=tls:build.example.com,client=tls:spiffe://a/b": {
			Path: "/srv", Secure: true, Clients: []server.Client{{Certs: []string{"build.example.com", "spiffe://a/b"}, Secure: true}},
		},
		"/srv,client=@lab,client=*.example.com,ro,client=192.0.2.0/255.255.255.0": {
			Path: "/srv", Secure: true, ReadOnly: true, Clients: []server.Client{{
				Nets: []netip.Prefix{net("192.0.2.0/24")}, Names: []string{"@lab", "*.example.com"}, ReadOnly: true, Secure: true,
			}},
		},
	} {
		got, err := exports.Parse(text, exports.Defaults())
		if err != nil || !reflect.DeepEqual(got, exports.Export{Export: want}) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string][3]string{
		"/srv,fsid=a,ro":                {"/srv", "a", ""},
		"/srv,mountpoint":               {"/srv", "", "/srv"},
		"/mnt/a/srv,mp=/mnt/a,insecure": {"/mnt/a/srv", "", "/mnt/a"},
		"/srv,fsid":                     {"/srv,fsid", "", ""},
	} {
		got, err := exports.Parse(text, exports.Defaults())
		if err != nil || [3]string{got.Path, got.FSID, got.Mountpoint} != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, why := range map[string]string{
		"": "no directory", ",ro": "no directory", "/srv,anonuid=0": "from 1", "/srv,anongid=4294967295": "from 1",
		"/srv,anonuid=x": "from 1", "/srv,client=no where": "want a host", "/srv,client=[": "want a host", "/srv,client=@": "want a host", "/srv,client=": "want a host",
		"/srv,client=192.0.2.300": "want a host", "/srv,client=192.0.2.0/33": "want a network", "/srv,client=192.0.2.0/255.0.255.0": "want a network",
		"/srv,client=tls:": "want tls:", "/srv,client=tls:*.example.com": "want tls:", "/srv,fsid=": "want a name", "/srv,xprtsec=": "want none, tls or mtls", "/srv,xprtsec=tls:ssl": "want none, tls or mtls",
	} {
		_, err := exports.Parse(text, exports.Defaults())
		if e, ok := errors.AsType[*exports.Error](err); !ok || !strings.Contains(e.Error(), why) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestVocabulary: every word of exports(5), as of nfs-utils 2.8, is obeyed, or it is said what it means here, or why not.
func TestVocabulary(t *testing.T) {
	for word, says := range map[string]string{
		"secure": "", "insecure": "", "rw": "", "ro": "", "sync": "", "async": "as sync", "no_wdelay": "", "wdelay": "no write",
		"nohide": "", "hide": "", "crossmnt": "of disks", "nocrossmnt": "",
		"subtree_check": "", "no_subtree_check": "moved out", "secure_locks": "", "auth_nlm": "", "insecure_locks": "may not lock",
		"no_auth_nlm": "may not lock", "mountpoint": "", "mountpoint=/mnt": "", "mp": "", "fsid=0": "", "fsid=root": "",
		"refer=/a@b": "refused: NFSv4", "replicas=/a@b": "refused: NFSv4", "pnfs": "refused: NFSv4", "no_pnfs": "",
		"security_label": "refused: NFSv4", "reexport=auto-fsidnum": "refused: fsid=NAME", "nordirplus": "those who ask", "rdirplus": "",
		"acl": "", "no_acl": "all the same", "sec=sys": "", "sec=krb5:sys": "", "sec=krb5:none": "refused: want sys, krb5", "sec=sys:sys": "refused: want sys, krb5", "xprtsec=none:tls": "",
		"root_squash": "", "no_root_squash": "", "all_squash": "", "no_all_squash": "", "anonuid=7": "", "anongid=7": "",
	} {
		e, err := exports.Parse("/srv,"+word, exports.Defaults())
		why, refused := strings.CutPrefix(says, "refused: ")
		switch {
		case refused && (err == nil || !strings.Contains(err.Error(), why)), !refused && err != nil:
			t.Errorf("%s: %v", word, err)
		case !refused && (e.Path != "/srv" || !strings.Contains(strings.Join(e.Says, "\n"), says) || (says == "") != (len(e.Says) == 0)):
			t.Errorf("%s: %q, %q", word, e.Path, e.Says)
		}
	}
	e, err := exports.Parse("/srv,all_squash,no_all_squash,async,async", exports.Defaults())
	if err != nil || e.Squash != server.SquashRoot || len(e.Says) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestLoad(t *testing.T) {
	load := func(text string) (*exports.File, error) {
		name := filepath.Join(t.TempDir(), "exports.toml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return exports.Load(name, exports.Defaults())
	}
	got, err := load(`
[[export]]
path = "/srv/a"
options = "ro,anonuid=7,anongid=7"
[[export.client]]
networks = ["192.0.2.0/24", "2001:db8::/32"]
options = "rw,no_root_squash"
[[export.client]]
networks = ["198.51.100.7"]

[[export]]
path = "/srv/b"
options = "insecure,fsid=b,mountpoint"
`)
	want := []exports.Export{
		{Export: server.Export{Path: "/srv/a", ReadOnly: true, Secure: true, AnonUID: 7, AnonGID: 7, Clients: []server.Client{
			{Nets: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}, Squash: server.SquashNone, AnonUID: 7, AnonGID: 7, Secure: true},
			{Nets: []netip.Prefix{netip.MustParsePrefix("198.51.100.7/32")}, ReadOnly: true, AnonUID: 7, AnonGID: 7, Secure: true},
		}}},
		{Export: server.Export{Path: "/srv/b"}, FSID: "b", Mountpoint: "/srv/b"},
	}
	if err != nil || !reflect.DeepEqual(got.Exports, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for text, why := range map[string]string{
		"":                           "no [[export]]",
		"[[export]]":                 "not absolute",
		"[[export]]\npath = \"srv\"": "not absolute",
		"[[export]\n":                "expected",
		"[[export]]\npath = 5":       "incompatible",
		"[[export]]\npath = \"/a\"\nreadonly = true":                                                     "\"export.readonly\" is not known",
		"[[export]]\npath = \"/a\"\noptions = \"client=192.0.2.1\"":                                      "is no option",
		"[[export]]\npath = \"/a\"\n[[export.client]]\nnetworks = [\"192.0.2.1\"]\noptions = \"fsid=a\"": "of the export",
		"[[export]]\npath = \"/a\"\noptions = \"ro root_squash\"":                                        "is no option",
		"[[export]]\npath = \"/a\"\n[[export.client]]\noptions = \"ro\"":                                 "no networks",
		"[[export]]\npath = \"/a\"\n[[export.client]]\nnetworks = [\"not here\"]":                        "want a host",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := exports.Load(filepath.Join(t.TempDir(), "none"), exports.Defaults()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
