package mount3_test

import (
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/xdr"
)

func Example() {
	res := mount3.ExportRes{Exports: []mount3.Export{{Dir: "/srv/data", Groups: []string{"10.0.0.0/8"}}}}
	d := xdr.NewDecoder(xdr.Encode(nil, &res))
	got := mount3.ProcExport.NewRes().(*mount3.ExportRes)
	fmt.Println(xdr.Decode(&d, got).Err(), got.Exports)
	// Output: <nil> [{/srv/data [10.0.0.0/8]}]
}
