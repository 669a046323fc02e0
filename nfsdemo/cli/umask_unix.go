//go:build unix

package cli

import "syscall"

// dropUmask lets files get the modes that clients ask for: these have applied their umask, and where a
// directory has a default ACL there is none.
func dropUmask() { syscall.Umask(0) }
