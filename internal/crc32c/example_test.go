package crc32c_test

import (
	"fmt"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// The CRC of the octets 0 to 31, from RFC 3720 Appendix B.4, in one piece and in two.
func Example() {
	b := make([]byte, 32)
	for i := range b {
		b[i] = byte(i)
	}
	fmt.Printf("%08x %08x\n", crc32c.Update(0, b), crc32c.Update(crc32c.Update(0, b[:5]), b[5:]))
	// Output: 46dd794e 46dd794e
}
