package rdmaptest

import (
	"encoding/hex"
	"strings"
)

// Hex returns the octets that s lists in hexadecimal, in words of whole octets. In each line,
// everything from the first other word on is a comment. Without any octets the test fails.
func Hex(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, s string,
) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(s) {
		for word := range strings.FieldsSeq(line) {
			octets, err := hex.DecodeString(word)
			if err != nil {
				break
			}
			b = append(b, octets...)
		}
	}
	if len(b) == 0 {
		t.Fatalf("no octets in %q", s)
	}
	return b
}
