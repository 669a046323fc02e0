package push_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/transport/push"
)

// A log that cannot be made: there is no room for it, or the medium refuses.
func TestSickStore(t *testing.T) {
	for want, cause := range map[push.Status]error{push.StatusFull: syscall.ENOSPC, push.StatusLost: syscall.EROFS} {
		w := start(t, &push.Server{Store: &poorStore{newMemStore(), &os.PathError{Op: "open", Path: "log", Err: cause}}})
		_, err := w.tryDial("log", nil)
		is(t, err, want)
	}
}
