package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// failWriter fails every Write.
type failWriter struct{ err error }

func (f failWriter) Write([]byte) (int, error) { return 0, f.err }

func TestOrderedWriterCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := nfsclient.NewOrderedWriter(ctx, &bytes.Buffer{}, 0)
		defer o.Close()
		done := make(chan error)
		go func() {
			_, err := o.WriteAt([]byte("b"), 1)
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}
