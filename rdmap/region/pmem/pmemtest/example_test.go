package pmemtest_test

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// A record and a word that says that it is there: the word may reach the medium first, unless the record is flushed.
func ExampleExplore() {
	for _, flush := range []bool{true, false} {
		_, err := pmemtest.Explore(&pmemtest.Script{
			Name: "one record", Size: 128,
			Run: func(x *pmemtest.Trial) error {
				x.Sent(1, []byte("precious"))
				_ = x.Mem.Store(0, []byte("precious"))
				if flush {
					_ = x.Mem.Persist(0, 8)
				}
				_ = x.Mem.Store(64, []byte{1})
				err := x.Mem.Persist(64, 1)
				x.Acked(1, []byte("precious"))
				return err
			},
			Recover: func(octets []byte) ([]pmemtest.Record, error) {
				if octets[64] == 0 {
					return nil, nil
				}
				return []pmemtest.Record{{Seq: 1, Payload: octets[:8]}}, nil
			},
		}, pmemtest.Budget{})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// pmemtest: one record: moment 2, crash 64: 64=1: record 1 was never sent, or is gone or torn (applied to 0, acked none, recovered 1, extra 1)
}
