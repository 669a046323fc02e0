package mpa_test

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// A stream that arrives in two reads.
func ExampleDeframer() {
	stream := mpa.AppendFPDU(nil, []byte("first"), true)
	stream = mpa.AppendFPDU(stream, []byte("second"), true)

	d := mpa.Deframer{CRC: true}
	var staged []byte
	for _, read := range [][]byte{stream[:17], stream[17:]} {
		staged = append(staged, read...)
		for {
			ulpdu, n, err := d.Next(staged)
			if err != nil || n == 0 {
				fmt.Println("more needed:", err == nil)
				break
			}
			fmt.Printf("%s\n", ulpdu)
			staged = staged[n:]
		}
	}
	fmt.Println("graceful:", d.EOF(staged) == nil)
	// Output:
	// first
	// more needed: true
	// second
	// more needed: true
	// graceful: true
}
