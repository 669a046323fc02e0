package backend

import (
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// CheckName says whether name may be looked up: ErrAcces if it is empty or has a '/' or NUL,
// ErrNameTooLong. The two dots are fine here.
//
// Choice: RFC 1813 Section 3.3.3 leaves open which error these get.
func CheckName(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return nfs3.ErrAcces
	case len(name) > nfs3.MaxName:
		return nfs3.ErrNameTooLong
	}
	return nil
}

// IsDots says whether name is "." or "..".
func IsDots(name string) bool { return name == "." || name == ".." }
