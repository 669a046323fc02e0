package drive_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
)

// of returns the Driver of c, which has no name outside package rdmap.
func of(c *rdmap.Conn) *drive.Driver {
	return (*drive.Driver)(reflect.ValueOf(c).Elem().FieldByName("drv").UnsafePointer())
}

// inner returns the Waiter of a Driver that w is.
func inner(w *rdmap.Waiter) *drive.Waiter {
	return (*drive.Waiter)(reflect.ValueOf(w).Elem().FieldByName("w").Addr().UnsafePointer())
}

// waitIdle waits until no call of c has begun for a tick.
func waitIdle(t *testing.T, c *rdmap.Conn) {
	t.Helper()
	for end := time.Now().Add(time.Minute); of(c).Role().Active(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection does not become idle")
		}
	}
}
