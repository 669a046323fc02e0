package mem_test

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Options{
		New: func(*testing.T) backend.FS { return mem.New(nil) },
	})
}

// A file is made, written, and found again by its handle.
func Example() {
	fsys := mem.New(&mem.Config{Capacity: 1 << 20})
	f, _, err := fsys.Root().Create("greeting", &backend.Init{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = f.Write([]byte("hello"), 0, nfs3.FileSync)
	fmt.Println(err)

	same, err := fsys.Resolve(nil, f.AppendHandle(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	p := make([]byte, 10)
	n, err := same.Read(p, 0)
	fmt.Printf("%s %v\n", p[:n], err)
	// Output:
	// <nil>
	// hello <nil>
}
