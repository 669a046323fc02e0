package main_test

import "math/rand/v2"

// noise returns n octets without a pattern.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b) // never fails
	return b
}
