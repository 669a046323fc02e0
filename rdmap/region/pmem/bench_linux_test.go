package pmem_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"golang.org/x/sys/unix"
)

const piece = 4096

// persistAll runs b.N persists of 4 KiB, spread over workers that each have their own place.
func persistAll(b *testing.B, workers int, persist func(off int) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.SetBytes(piece)
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := persist(w * piece); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// One caller at a time, alternating with the comparison, pwrite and fdatasync: medians. Two separate loops, one
// after the other, would measure the changing speed of the disk.
func BenchmarkPersistAlone(b *testing.B) {
	f, err := os.OpenFile(newFile(b, piece), os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, piece)
	turns := []func() error{func() error {
		_, err := f.WriteAt(p, 0)
		return errors.Join(err, unix.Fdatasync(int(f.Fd())))
	}}
	for _, k := range []pmem.Kind{pmem.File, pmem.Mmap} {
		m := open(b, k, newFile(b, piece), nil)
		defer m.Close()
		turns = append(turns, func() error { return errors.Join(m.Store(0, p), m.Persist(0, piece)) })
	}
	took := make([][]time.Duration, len(turns))
	for b.Loop() {
		for k, turn := range turns {
			start := time.Now()
			if err := turn(); err != nil {
				b.Fatal(err)
			}
			took[k] = append(took[k], time.Since(start))
		}
	}
	for k, name := range []string{"own", "file", "mmap"} {
		slices.Sort(took[k])
		b.ReportMetric(float64(took[k][len(took[k])/2].Nanoseconds()), name+"-ns/op")
	}
}

// 4 KiB made durable by workers that share a memory. In the comparison, "own", each worker makes its own pwrite and
// fdatasync.
func BenchmarkPersist(b *testing.B) {
	for _, workers := range []int{4, 16, 64} {
		b.Run(fmt.Sprintf("own/%d", workers), func(b *testing.B) {
			f, err := os.OpenFile(newFile(b, 64*piece), os.O_RDWR, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			p := make([]byte, piece)
			persistAll(b, workers, func(off int) error {
				if _, err := f.WriteAt(p, int64(off)); err != nil {
					return err
				}
				return unix.Fdatasync(int(f.Fd()))
			})
		})
		for _, k := range []pmem.Kind{pmem.File, pmem.Mmap} {
			b.Run(fmt.Sprintf("%v/%d", k, workers), func(b *testing.B) {
				m := open(b, k, newFile(b, 64*piece), nil)
				defer m.Close()
				p := make([]byte, piece)
				persistAll(b, workers, func(off int) error {
					if err := m.Store(off, p); err != nil {
						return err
					}
					return m.Persist(off, piece)
				})
			})
		}
	}
}

func BenchmarkStore(b *testing.B) {
	m := open(b, pmem.Mmap, newFile(b, piece), nil)
	defer m.Close()
	p := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Store(0, p)
	}
}
