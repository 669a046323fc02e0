package dir_test

import (
	"fmt"
	"net"
	"os"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// A handle outlives a rename and the process that gave it.
func Example() {
	path, err := os.MkdirTemp("", "export")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(path)

	key := []byte("32 random octets, kept in a file") // where only the server can read them
	fsys, err := dir.New(path, &dir.Config{Key: key})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, _, err := fsys.Root().Create("d", &backend.Init{Type: nfs3.TypeDir})
	fmt.Println(err)
	handle := d.AppendHandle(nil)
	fmt.Println(fsys.Root().Rename("d", fsys.Root(), "e"), fsys.Close())

	again, err := dir.New(path, &dir.Config{Key: key})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer again.Close()
	same, err := again.Resolve(nil, handle)
	fmt.Println(same != nil, err)
	// The same for a client, which alone waits for a search, if there has to be one.
	same, err = again.Resolve(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, handle)
	fmt.Println(same != nil, err)
	// Output:
	// <nil>
	// <nil> <nil>
	// true <nil>
	// true <nil>
}
