//go:build !mutant

package mutant

// Is reports whether the fault is switched on.
func Is(string) bool { return false }
