//go:build mutant

package mutant

// active is set by the linker.
var active string

// Is reports whether the fault is switched on.
func Is(name string) bool { return active == name }
