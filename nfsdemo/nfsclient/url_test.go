package nfsclient_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

func TestParseURL(t *testing.T) {
	for _, tt := range []struct {
		in    string
		want  nfsclient.URL
		given bool // the text names the port
		str   string
	}{
		{"nfs+rdma://h/exp/a", nfsclient.URL{Scheme: nfsclient.SchemeRDMA, Host: "h", Port: 20049, Path: "/exp/a"}, false, "nfs+rdma://h/exp/a"},
		{"nfs://h/exp/a/", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "h", Port: 2049, Path: "/exp/a", DirHint: true}, false, "nfs://h/exp/a"},
		{"NFS://h/", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "h", Port: 2049, Path: "/", DirHint: true}, false, "nfs://h/"},
		{"nfs+rdma://h:7/x", nfsclient.URL{Scheme: nfsclient.SchemeRDMA, Host: "h", Port: 7, Path: "/x"}, true, "nfs+rdma://h:7/x"},
		{"nfs+rdma://h/x?nfsport=7", nfsclient.URL{Scheme: nfsclient.SchemeRDMA, Host: "h", Port: 7, Path: "/x"}, true, "nfs+rdma://h:7/x"},
		{"nfs+rdma://h:7/x?nfsport=7", nfsclient.URL{Scheme: nfsclient.SchemeRDMA, Host: "h", Port: 7, Path: "/x"}, true, "nfs+rdma://h:7/x"},
		{"nfs://h/x?mountport=20048", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "h", Port: 2049, MountPort: 20048, Path: "/x"}, false, "nfs://h/x?mountport=20048"},
		{"nfs://h/x?nfsport=1&mountport=2", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "h", Port: 1, MountPort: 2, Path: "/x"}, true, "nfs://h:1/x?mountport=2"},
		{"nfs://[::1]/x", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "::1", Port: 2049, Path: "/x"}, false, "nfs://[::1]/x"},
		{"nfs://[::1]:9/x", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "::1", Port: 9, Path: "/x"}, true, "nfs://[::1]:9/x"},
		{"nfs://h/a//b/./c/../d", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "h", Port: 2049, Path: "/a/b/d"}, false, "nfs://h/a/b/d"},
		{"nfs://h/../..", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "h", Port: 2049, Path: "/"}, false, "nfs://h/"},
		{"nfs://h/a%20b%23%3f", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "h", Port: 2049, Path: "/a b#?"}, false, "nfs://h/a%20b%23%3F"},
		{"nfs://h/%F0%9F%98%80", nfsclient.URL{Scheme: nfsclient.SchemeTCP, Host: "h", Port: 2049, Path: "/😀"}, false, "nfs://h/%F0%9F%98%80"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			got := must(nfsclient.ParseURL(tt.in))(t)
			if want := tt.want.WithGiven(tt.given); *got != want {
				t.Errorf("got %+v, want %+v", *got, want)
			}
			if s := got.String(); s != tt.str {
				t.Errorf("String() = %q, want %q", s, tt.str)
			}
			again, err := nfsclient.ParseURL(got.String())
			if err != nil {
				t.Fatalf("own form cannot be parsed: %v", err)
			}
			again.DirHint = got.DirHint
			if *again != *got {
				t.Errorf("round trip: got %+v, want %+v", *again, *got)
			}
		})
	}
}

func TestParseURLErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"http://h/x", `scheme "http" is not supported`},
		{"/local/path", `scheme "" is not supported`},
		{"nfs:///x", "no host"},
		{"nfs://h", "no path"},
		{"nfs+rdma://::1/x", "write nfs+rdma://[2001:db8::1]:20049/"},
		{"nfs+rdma://2001:db8::1:20049/x", "needs brackets"},
		{"nfs://u@h/x", "--uid"},
		{"nfs://h/x#y", "%23"},
		{"nfs://h/x%00", "zero octet"},
		{"nfs://h/%zz", "not a URL"},
		{"nfs://h:0/x", "1 to 65535"},
		{"nfs://h:65536/x", "1 to 65535"},
		{"nfs://h:1/x?nfsport=2", "disagree"},
		{"nfs://h/x?mountport=", "mountport: port"},
		{"nfs://h/x?mountport=-1", "mountport: port"},
		{"nfs://h/x?nfsport=abc", "nfsport: port"},
		{"nfs://h/x?vers=4", `query key "vers" is unknown`},
		{"nfs://h/x?a=%zz", "query"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			_, err := nfsclient.ParseURL(tt.in)
			if _, ok := errors.AsType[*nfsclient.URLError](err); !ok {
				t.Fatalf("got %v, want a *URLError", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want it to contain %q", err, tt.want)
			}
			if strings.Count(err.Error(), "\n") != 0 {
				t.Errorf("error has more than one line: %q", err)
			}
		})
	}
}

func TestIsURL(t *testing.T) {
	for s, want := range map[string]bool{
		"nfs://h/x": true, "nfs+rdma://h/x": true, "http://x": true,
		"": false, "-": false, "/a/b": false, "a": false, "./a://b": false, "://x": false, "a b://x": false,
	} {
		if got := nfsclient.IsURL(s); got != want {
			t.Errorf("IsURL(%q) = %v, want %v", s, got, want)
		}
	}
}

func TestSameServer(t *testing.T) {
	parse := func(s string) *nfsclient.URL {
		u := must(nfsclient.ParseURL(s))(t)
		return u
	}
	a := parse("nfs://h/a")
	if !a.SameServer(parse("nfs://h:2049/b")) {
		t.Error("the default port must count as given")
	}
	for _, s := range []string{"nfs+rdma://h:2049/a", "nfs://i/a", "nfs://h:1/a", "nfs://h/a?mountport=1"} {
		if a.SameServer(parse(s)) {
			t.Errorf("%s is another server", s)
		}
	}
	if got := a.WithPath("/x/../y").String(); got != "nfs://h/y" {
		t.Errorf("WithPath = %q", got)
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"nfs://h/x", "nfs+rdma://[::1]:1/x?mountport=2", "nfs://h/%00", "://", "nfs://h:99999/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := nfsclient.ParseURL(s)
		if err != nil {
			return
		}
		if u.Path == "" || u.Path[0] != '/' || u.Port < 1 || u.Port > 65535 {
			t.Fatalf("%q parsed to %+v", s, u)
		}
	})
}
