package lease_test

import (
	"fmt"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
)

// A client writes to a file by records; then somebody else removes the file.
func ExampleTable() {
	now := time.Unix(0, 0)
	t := lease.New[string](lease.Config{RecallTime: 5 * time.Second})
	t.Opened(1, 0)
	id, _, _ := t.Grant(1, "file", now)
	tail := func(lease.Log) uint64 { return 3 } // three records have been appended

	say := func(out []lease.Action[string]) {
		for _, a := range out {
			fmt.Println(a.Kind, "log", a.Log, "lease", a.Lease, "upto", a.Upto)
		}
	}
	remove, out := t.Change(tail, now, "file", "directory")
	say(out)
	out, _ = t.Return(1, id, 4) // one more was on its way
	say(out)
	for seq := uint64(1); seq <= 4; seq++ {
		f, err := t.Admit(1, id, seq)
		fmt.Println("apply", seq, "to", f, err)
		say(t.Applied(1, seq))
	}
	t.Done(remove)
	_, err := t.Admit(1, id, 5)
	fmt.Println(err)
	// Output:
	// recall log 1 lease 1 upto 0
	// drain log 1 lease 0 upto 3
	// drain log 1 lease 0 upto 4
	// apply 1 to file <nil>
	// apply 2 to file <nil>
	// apply 3 to file <nil>
	// apply 4 to file <nil>
	// over log 1 lease 1 upto 0
	// run log 0 lease 0 upto 0
	// lease: no such lease of this log: log 1, lease 1, record 5
}

// A client that does not answer is fenced, an operation that looks does not wait for that.
func ExampleTable_Tick() {
	now := time.Unix(0, 0)
	t := lease.New[string](lease.Config{RecallTime: 5 * time.Second})
	t.Opened(1, 0)
	t.Opened(2, 0)
	t.Grant(1, "file", now)
	_, out, err := t.Grant(2, "file", now)
	fmt.Println(out[0].Kind, err)
	_, out = t.Look(func(lease.Log) uint64 { return 0 }, "file")
	fmt.Println(out[0].Kind)
	fmt.Println(t.Deadline().Sub(now), len(t.Tick(now)))
	fmt.Println(t.Tick(now.Add(5 * time.Second))[0].Kind)
	t.Fenced(1, 0)
	_, _, err = t.Grant(2, "file", now)
	fmt.Println(err)
	// Output:
	// recall lease: the file is being changed or written by others
	// run
	// 5s 0
	// fence
	// <nil>
}

// After a restart of the server records are left whose leases it had granted before.
func ExampleTable_Restore() {
	t := lease.New[string](lease.Config{})
	t.Restore(1, 10, 7, "file") // record 10 was the last that had been applied
	t.Fenced(1, 12)
	t.Opened(1, 10) // the client is back
	look, out := t.Look(func(lease.Log) uint64 { return 12 }, "file")
	fmt.Println(out[0].Kind, out[0].Upto)
	t.Applied(1, 11)
	out = t.Failed(1, fmt.Errorf("disk full"))
	fmt.Println(out[0].Kind, out[0].Ticket == look, look.Err)
	id, _, err := t.Grant(1, "other", time.Unix(0, 0))
	fmt.Println(id, err)
	// Output:
	// drain 12
	// run true disk full
	// 8 <nil>
}
