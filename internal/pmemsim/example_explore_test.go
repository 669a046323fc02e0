package pmemsim_test

import (
	"fmt"

	"github.com/stag-rdma/stag/internal/pmemsim"
)

// A storage of one record: its octets, and behind them a word that says that they are
// there.
func store(x *pmemsim.Run, flushFirst bool) error {
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

func recover1(octets []byte) ([]pmemsim.Record, error) {
	if octets[64] == 0 {
		return nil, nil
	}
	return []pmemsim.Record{{Seq: 1, Payload: octets[:8]}}, nil
}

// The word may reach the medium before the octets it speaks of, unless they are flushed first.
func ExampleExplore() {
	for _, flushFirst := range []bool{true, false} {
		report, err := pmemsim.Explore(&pmemsim.Script{
			Name: "one record", Size: 128, Recover: recover1,
			Run: func(x *pmemsim.Run) error { return store(x, flushFirst) },
		}, pmemsim.Budget{})
		fmt.Println(report.Acked, err)
	}
	// Output:
	// 1 <nil>
	// 0 pmemsim: one record: moment 2, crash 64: 64=1: record 1 was never sent, or is gone or torn (applied to 0, acked none, recovered 1, extra 1)
}

// A record that was stored and not flushed may be there after a crash or not. Recovery decides,
// and what it has said stays so: here it forgets to make that durable.
func ExampleRun_Gone() {
	_, err := pmemsim.Explore(&pmemsim.Script{
		Name: "forgotten record", Size: 128, Recover: recover1,
		Run: func(x *pmemsim.Run) error {
			x.Sent(1, make([]byte, 8))
			_ = x.Mem.Store(64, []byte{1})
			x.Gone(1)
			return nil
		},
	}, pmemsim.Budget{})
	fmt.Println(err)
	// Output: pmemsim: forgotten record: moment 2, crash 64: 64=1: record 1 was never sent, or is gone or torn (applied to 0, acked none, recovered 1, extra 1)
}

// What a Violation holds.
func ExampleViolation() {
	v := &pmemsim.Violation{
		Script: "wrap", Moment: 7, Image: "64: 128=1", Why: "acknowledged record 4 is gone",
		Applied: 1, Acked: []uint64{1, 2, 4}, Recovered: []uint64{2, 3}, Extra: []uint64{3},
	}
	fmt.Println(v)
	// Output: pmemsim: wrap: moment 7, crash 64: 128=1: acknowledged record 4 is gone (applied to 1, acked 1-2,4, recovered 2-3, extra 3)
}
