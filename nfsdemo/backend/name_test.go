package backend_test

import (
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func TestCheckName(t *testing.T) {
	for name, want := range map[string]error{
		"a": nil, ".": nil, "..": nil, "...": nil, strings.Repeat("x", 255): nil,
		"": nfs3.ErrAcces, "/": nfs3.ErrAcces, "a/b": nfs3.ErrAcces, "\x00": nfs3.ErrAcces, strings.Repeat("x", 256): nfs3.ErrNameTooLong,
	} {
		if got := backend.CheckName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	if !backend.IsDots(".") || !backend.IsDots("..") || backend.IsDots("...") || backend.IsDots("") {
		t.Error("IsDots")
	}
}
