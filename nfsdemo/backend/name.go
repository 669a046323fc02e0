package backend

import (
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// CheckName returns nil if name may be looked up, "." and ".." included; ErrAcces if it is empty
// or contains '/' or NUL; ErrNameTooLong.
//
// Choice: RFC 1813 Section 3.3.3 does not say which error such names get.
func CheckName(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return nfs3.ErrAcces
	case len(name) > nfs3.MaxName:
		return nfs3.ErrNameTooLong
	}
	return nil
}

// IsDots reports whether name is "." or "..".
func IsDots(name string) bool { return name == "." || name == ".." }
