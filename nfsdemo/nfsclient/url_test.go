package nfsclient

import (
	"errors"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want URL
		str  string
	}{
		{"nfs+rdma://h/exp/a", URL{SchemeRDMA, "h", 20049, 0, "/exp/a", false, false}, "nfs+rdma://h/exp/a"},
		{"nfs://h/exp/a/", URL{SchemeTCP, "h", 2049, 0, "/exp/a", true, false}, "nfs://h/exp/a"},
		{"NFS://h/", URL{SchemeTCP, "h", 2049, 0, "/", true, false}, "nfs://h/"},
		{"nfs+rdma://h:7/x", URL{SchemeRDMA, "h", 7, 0, "/x", false, true}, "nfs+rdma://h:7/x"},
		{"nfs+rdma://h/x?nfsport=7", URL{SchemeRDMA, "h", 7, 0, "/x", false, true}, "nfs+rdma://h:7/x"},
		{"nfs+rdma://h:7/x?nfsport=7", URL{SchemeRDMA, "h", 7, 0, "/x", false, true}, "nfs+rdma://h:7/x"},
		{"nfs://h/x?mountport=20048", URL{SchemeTCP, "h", 2049, 20048, "/x", false, false}, "nfs://h/x?mountport=20048"},
		{"nfs://h/x?nfsport=1&mountport=2", URL{SchemeTCP, "h", 1, 2, "/x", false, true}, "nfs://h:1/x?mountport=2"},
		{"nfs://[::1]/x", URL{SchemeTCP, "::1", 2049, 0, "/x", false, false}, "nfs://[::1]/x"},
		{"nfs://[::1]:9/x", URL{SchemeTCP, "::1", 9, 0, "/x", false, true}, "nfs://[::1]:9/x"},
		{"nfs://h/a//b/./c/../d", URL{SchemeTCP, "h", 2049, 0, "/a/b/d", false, false}, "nfs://h/a/b/d"},
		{"nfs://h/../..", URL{SchemeTCP, "h", 2049, 0, "/", false, false}, "nfs://h/"},
		{"nfs://h/a%20b%23%3f", URL{SchemeTCP, "h", 2049, 0, "/a b#?", false, false}, "nfs://h/a%20b%23%3F"},
		{"nfs://h/%F0%9F%98%80", URL{SchemeTCP, "h", 2049, 0, "/😀", false, false}, "nfs://h/%F0%9F%98%80"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			got, err := ParseURL(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if *got != tt.want {
				t.Errorf("got %+v, want %+v", *got, tt.want)
			}
			if s := got.String(); s != tt.str {
				t.Errorf("String() = %q, want %q", s, tt.str)
			}
			again, err := ParseURL(got.String())
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
			_, err := ParseURL(tt.in)
			if _, ok := errors.AsType[*URLError](err); !ok {
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
		if got := IsURL(s); got != want {
			t.Errorf("IsURL(%q) = %v, want %v", s, got, want)
		}
	}
}

func TestSameServer(t *testing.T) {
	parse := func(s string) *URL {
		u, err := ParseURL(s)
		if err != nil {
			t.Fatal(err)
		}
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
		u, err := ParseURL(s)
		if err != nil {
			return
		}
		if u.Path == "" || u.Path[0] != '/' || u.Port < 1 || u.Port > 65535 {
			t.Fatalf("%q parsed to %+v", s, u)
		}
	})
}
