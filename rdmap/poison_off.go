//go:build !race && !invariants

package rdmap

func poison([]byte) {}
