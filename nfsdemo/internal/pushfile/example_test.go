package pushfile_test

import (
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
)

func ExampleParseRecord() {
	r := pushfile.Record{Lease: 7, Offset: 4096, Data: []byte("octets")}
	b := r.Append(nil)
	fmt.Printf("% x\n", b)
	got, err := pushfile.ParseRecord(b)
	fmt.Printf("lease %d, offset %d, %q, %v\n", got.Lease, got.Offset, got.Data, err)
	_, err = pushfile.ParseRecord(b[:pushfile.RecordHead])
	fmt.Println(err)
	// Output:
	// 73 74 66 01 00 00 00 00 00 00 00 07 00 00 00 00 00 00 10 00 6f 63 74 65 74 73
	// lease 7, offset 4096, "octets", <nil>
	// pushfile: malformed record (is the client of another version?)
}
