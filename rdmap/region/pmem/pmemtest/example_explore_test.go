package pmemtest_test

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// A storage of one record: its octets, and behind them a word that says that they are
// there.
func store(x *pmemtest.Trial, flushFirst bool) error {
	payload := []byte("precious")
	x.Sent(1, payload)
	_ = x.Mem.Store(0, payload)
	if flushFirst {
		_ = x.Mem.Persist(0, 8)
	}
	_ = x.Mem.Store(64, []byte{1})
	if err := x.Mem.Persist(0, 65); err != nil {
		return err
	}
	x.Acked(1, payload)
	return nil
}

func recover1(octets []byte) ([]pmemtest.Record, error) {
	if octets[64] == 0 {
		return nil, nil
	}
	return []pmemtest.Record{{Seq: 1, Payload: octets[:8]}}, nil
}

// The word may reach the medium before the octets it speaks of, unless they are flushed first.
func ExampleExplore() {
	for _, flushFirst := range []bool{true, false} {
		report, err := pmemtest.Explore(&pmemtest.Script{
			Name: "one record", Size: 128, Recover: recover1,
			Run: func(x *pmemtest.Trial) error { return store(x, flushFirst) },
		}, pmemtest.Budget{})
		fmt.Println(report.Acked, err)
	}
	// Output:
	// 1 <nil>
	// 0 pmemtest: one record: moment 2, crash 64: 64=1: record 1 was never sent, or is gone or torn (applied to 0, acked none, recovered 1, extra 1)
}

// A record that was stored and not flushed may be there after a crash or not. Recovery decides,
// and what it has said stays so: here it forgets to make that durable.
func ExampleTrial_Gone() {
	_, err := pmemtest.Explore(&pmemtest.Script{
		Name: "forgotten record", Size: 128, Recover: recover1,
		Run: func(x *pmemtest.Trial) error {
			x.Sent(1, make([]byte, 8))
			_ = x.Mem.Store(64, []byte{1})
			x.Gone(1)
			return nil
		},
	}, pmemtest.Budget{})
	fmt.Println(err)
	// Output: pmemtest: forgotten record: moment 2, crash 64: 64=1: record 1 was never sent, or is gone or torn (applied to 0, acked none, recovered 1, extra 1)
}

// What a Violation holds.
func ExampleViolation() {
	v := &pmemtest.Violation{
		Script: "wrap", Moment: 7, Image: "64: 128=1", Why: "acknowledged record 4 is gone",
		Applied: 1, Acked: []uint64{1, 2, 4}, Recovered: []uint64{2, 3}, Extra: []uint64{3},
	}
	fmt.Println(v)
	// Output: pmemtest: wrap: moment 7, crash 64: 128=1: acknowledged record 4 is gone (applied to 1, acked 1-2,4, recovered 2-3, extra 3)
}
