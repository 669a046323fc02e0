package rdmap_test

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

func ExampleConn_FetchAdd() {
	ctx := context.Background()
	cfg := &rdmap.Config{Extensions: rdmap.Ext7306 | rdmap.ExtSwap}
	a, b := pair(cfg, cfg)
	defer a.Close()
	reg, _ := b.Register(make([]byte, 8), region.Atomic)
	go b.Serve()
	defer b.Close()

	all := ^uint64(0)
	a.FetchAdd(ctx, reg.STag(), 0, 5, 0)
	was, err := a.CmpSwap(ctx, reg.STag(), 0, 5, all, 100, all)
	fmt.Println(was, err)
	was, err = a.Swap(ctx, reg.STag(), 0, 7)
	fmt.Println(was, err)
	was, err = a.FetchAdd(ctx, reg.STag(), 0, 0, 0)
	fmt.Println(was, err)
	// Output:
	// 5 <nil>
	// 100 <nil>
	// 7 <nil>
}

func ExampleConn_SendImmediate() {
	ctx := context.Background()
	cfg := &rdmap.Config{Extensions: rdmap.Ext7306}
	a, b := pair(cfg, cfg)
	defer a.Close()
	defer b.Close()
	a.SendImmediate(ctx, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, true)
	m, err := b.Recv(ctx)
	fmt.Println(m.Op, m.Data, m.Solicited, err)
	// Output: Immediate Data with SE [1 2 3 4 5 6 7 8] true <nil>
}
