package push_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// Names, logs and octets are bounded; a large wish is cut down.
func TestQuota(t *testing.T) {
	ps := &push.Server{Store: newMemStore(), Limits: push.Limits{
		MaxLogs: 4, MaxOctets: 3 * 8192, MaxCapacity: 8192,
	}}
	defer ps.Close(context.Background())
	for _, name := range []string{"a", "b", "c"} {
		r := ask(ps, "127.0.0.1:1", openArgs{Name: name, Secret: push.Secret{1}, Capacity: 1 << 40})
		if r.Status != push.StatusOK || r.Opened.Answer.Capacity != 8192 {
			t.Fatal(r.Status, r.Opened.Answer.Capacity)
		}
	}
	for range 2 {
		if r := ask(ps, "127.0.0.1:2", openArgs{Name: "late", Secret: push.Secret{1}}); r.Status != push.StatusFull {
			t.Error("more than there is room for:", r.Status)
		}
	}
	if st := ps.Stats(); st.Octets != 3*8192 || st.Logs != 3 {
		t.Errorf("%+v", st)
	}
}

// A peer that floods with flushes and hashes of one log does not keep another from being
// appended to; both are what their owners have appended.
func TestFlushFlood(t *testing.T) {
	t.Parallel()
	w := start(t, &push.Server{})
	flooder := w.dial("flood", &push.Config{Producer: &commitlog.ProducerOptions{Verify: true}})
	stop := make(chan struct{})
	over := make(chan struct{})
	flooding := make(chan struct{})
	go func() {
		defer close(over)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
				if _, err := flooder.Append(t.Context(), make([]byte, 4000)); err != nil {
					t.Error(err)
					return
				}
				if n == 100 {
					close(flooding)
				}
			}
			l := w.ps.Log("flood")
			if r, _ := l.TryNext(); r != nil {
				_ = l.Release(r.Seq)
			}
		}
	}()
	select {
	case <-flooding:
	case <-over:
	}
	s := w.dial("log", nil)
	for i := range 20 {
		appended(t, s, commitlog.Persistent, uint64(i+1), fmt.Sprint(i))
	}
	close(stop)
	<-over
}
