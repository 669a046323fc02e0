//go:build !unix

package cli

func dropUmask() {}
