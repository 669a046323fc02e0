package nfsclient

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func TestServes(t *testing.T) {
	parse := func(s string) *URL {
		u, err := ParseURL(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	c := &Client{export: "/a", exports: []string{"/a", "/a/b"}}
	at := parse("nfs://h/a")
	for s, want := range map[string]bool{
		"nfs://h/a/x": true, "nfs://h/a/b/x": false, "nfs://h/c": false, "nfs://i/a": false,
	} {
		if got := c.Serves(at, parse(s)); got != want {
			t.Errorf("Serves(%s) = %v, want %v", s, got, want)
		}
	}
	c.exports = nil
	if !c.Serves(at, parse("nfs://h/a/b/x")) {
		t.Error("without a list the prefix decides")
	}
}

func TestErrorsOfStatuses(t *testing.T) {
	for s := range statusTexts {
		text := (&StatusError{Proc: nfs3.ProcRead, Status: s}).Error()
		if strings.Contains(text, "0x") || strings.Contains(text, "unknown") {
			t.Errorf("status %d has no text: %q", s, text)
		}
	}
	for s, want := range map[nfs3.Status]error{
		nfs3.ErrNoEnt: fs.ErrNotExist, nfs3.ErrExist: fs.ErrExist, nfs3.ErrAcces: fs.ErrPermission,
	} {
		if err := pathErr("x", "/y", &StatusError{Status: s}); !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	if pathErr("x", "y", nil) != nil {
		t.Error("nil must stay nil")
	}
	if got := prefixes("/a/b"); !slices.Equal(got, []string{"/a/b", "/a", "/"}) {
		t.Errorf("prefixes = %q", got)
	}
}
