//go:build mutant

package mutant

// active is set by the linker: -ldflags "-X .../mutant.active=reply-before-record".
var active string

// Is reports whether a fault is switched on.
func Is(name string) bool { return active == name }
