//go:build !linux

// Package vec is writev(2) without an allocation per call. It is empty on systems
// other than Linux.
package vec
