package pmemtest

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

func TestAppendWords(t *testing.T) {
	b := make([]byte, 100)
	for i := range b {
		b[i] = byte(i)
	}
	for lo := range 20 {
		for hi := lo; hi < len(b); hi++ {
			if got := appendWords(nil, b[lo:hi]); !bytes.Equal(got, b[lo:hi]) {
				t.Fatalf("[%d:%d]: % x", lo, hi, got)
			}
		}
	}
}

// The race detector agrees that appendWords and atomic users do not race.
func TestAppendWordsConcurrent(t *testing.T) {
	w := make([]uint64, 4)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 32)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 1000 {
			atomic.AddUint64(&w[2], 1)
		}
	})
	for range 100 {
		appendWords(nil, b[3:29])
	}
	wg.Wait()
}
