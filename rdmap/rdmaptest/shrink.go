package rdmaptest

import "slices"

// Shrink returns a short part of in, the input of a model that draws its steps from it, that fails as well: without any
// run of octets that can be left out. It borrows in, and calls fails about len(in) times the logarithm of that.
func Shrink(in []byte, fails func(in []byte) bool) []byte {
	for size := len(in); size > 0; size /= 2 {
		for at := 0; at+size <= len(in); {
			if part := slices.Concat(in[:at], in[at+size:]); fails(part) {
				in = part
			} else {
				at += size
			}
		}
	}
	return in
}
