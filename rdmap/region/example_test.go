package region_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Memory lent to a peer for reading, and taken back.
func Example() {
	t := region.NewTable()
	mem := []byte("what the peer may read")
	r, err := t.Register(mem, region.RemoteRead)
	if err != nil {
		fmt.Println(err)
		return
	}

	// The engine, on an RDMA Read of 4 octets at TO 5.
	v, err := t.Lookup(r.STag(), 5, 4, region.RemoteRead)
	fmt.Printf("%s %v\n", v.Bytes(), err)
	v.Release()

	_, err = t.Lookup(r.STag(), 5, 4, region.RemoteWrite)
	fmt.Println(errors.Is(err, region.ErrAccess))
	_, err = t.Lookup(r.STag(), 20, 4, region.RemoteRead)
	fmt.Println(errors.Is(err, region.ErrBounds))

	fmt.Println(r.Invalidate(context.Background()), t.Live())
	_, err = t.Lookup(r.STag(), 5, 4, region.RemoteRead)
	fmt.Println(errors.Is(err, region.ErrInvalidSTag))
	// Output:
	// the  <nil>
	// true
	// true
	// <nil> 0
	// true
}
