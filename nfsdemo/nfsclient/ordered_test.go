package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

func TestOrderedWriter(t *testing.T) {
	var out bytes.Buffer
	o := nfsclient.NewOrderedWriter(t.Context(), &out, 0)
	defer o.Close()
	data := testData(100)
	var wg sync.WaitGroup
	for _, i := range rand.Perm(10) {
		wg.Go(func() {
			if n, err := o.WriteAt(data[i*10:i*10+10], int64(i*10)); n != 10 || err != nil {
				t.Errorf("WriteAt(%d) = %d, %v", i, n, err)
			}
		})
	}
	wg.Wait()
	if !bytes.Equal(out.Bytes(), data) {
		t.Errorf("got %x, want %x", out.Bytes(), []byte(data))
	}
}

// failWriter fails every Write.
type failWriter struct{ err error }

func (f failWriter) Write([]byte) (int, error) { return 0, f.err }

func TestOrderedWriterErrorWakesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("pipe closed")
		o := nfsclient.NewOrderedWriter(t.Context(), failWriter{bad}, 0)
		defer o.Close()
		late := make(chan error)
		go func() {
			_, err := o.WriteAt([]byte("b"), 1)
			late <- err
		}()
		synctest.Wait()
		if _, err := o.WriteAt([]byte("a"), 0); !errors.Is(err, bad) {
			t.Errorf("got %v, want %v", err, bad)
		}
		if err := <-late; !errors.Is(err, bad) {
			t.Errorf("waiting call: got %v, want %v", err, bad)
		}
	})
}

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
