package copies_test

import (
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/internal/copies"
)

func Example() {
	copies.Start()
	n := copies.Copy(make([]byte, 3), []byte("hello"))
	fmt.Println(n, copies.Stop())
	// Output: 3 3
}
