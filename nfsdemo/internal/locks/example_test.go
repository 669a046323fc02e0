package locks_test

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/locks"
)

func Example() {
	k := locks.NewLocker(locks.Limits{})
	ctx, file := context.Background(), []byte("handle")
	mine := &backend.Lock{Owner: backend.LockOwner{Client: "a", ID: 7}, Exclusive: true, End: backend.LockEnd}
	yours := &backend.Lock{Owner: backend.LockOwner{Client: "b", ID: 1}, Start: 10, End: 19}
	fmt.Println(k.SetLock(ctx, file, mine, false))
	fmt.Println(k.SetLock(ctx, file, yours, false))
	fmt.Println(k.ReleaseLocks(ctx, "a"))
	fmt.Println(k.SetLock(ctx, file, yours, false))
	// Output:
	// <nil>
	// backend: an exclusive lock of process 7 of "a" is in the way: wait for it, or try again later
	// <nil>
	// <nil>
}
