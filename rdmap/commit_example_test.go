package rdmap_test

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

func ExampleConn_Flush() {
	ctx := context.Background()
	cfg := &rdmap.Config{Extensions: rdmap.ExtCommit}
	a, b := pair(cfg, cfg)
	defer a.Close()
	rights := region.RemoteRead | region.RemoteWrite | region.FlushVisible | region.Verify
	reg, _ := b.Register(make([]byte, 64), rights)
	go b.Serve()
	defer b.Close()

	a.Write(ctx, make([]byte, 32), reg.STag(), 0)
	fmt.Println(a.Flush(ctx, reg.STag(), 0, 32, rdmap.FlushVisible))
	sum, err := a.Verify(ctx, reg.STag(), 0, 32, nil)
	fmt.Printf("%x %v\n", sum, err)
	fmt.Println(a.AtomicWrite(ctx, reg.STag(), 56, [8]byte{1}))
	// Output:
	// <nil>
	// 8a9136aa <nil>
	// <nil>
}
