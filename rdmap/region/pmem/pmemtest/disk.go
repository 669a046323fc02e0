package pmemtest

import (
	"os"
	"slices"
	"sync"

	"github.com/stag-rdma/stag/rdmap/region/pmem"

	"github.com/stag-rdma/stag/rdmap/region"
)

// sector is the unit in which a disk writes, octets.
const sector = 512

// Disk is a model of the disk under a file of kind file. Until an fdatasync has returned, a power
// failure loses what was written, in whole or in part. Disk sees the system calls through a Hook, so it
// sees only those of one memory, which must have the file to itself.
//
//	d := pmemtest.NewDisk(path, func(image []byte) { ... recover from image ... })
//	m, err := pmem.Open(pmem.File, path, d.Hook())
type Disk struct {
	path  string
	crash func(image []byte)

	mu      sync.Mutex
	err     error // of reading the file
	durable []byte
	pending []region.Range // written, not synced
	synced  bool           // an fdatasync of pending was called; at the next event it is over
}

// NewDisk returns a model of the disk under the file at path, whose present content counts as
// durable. crash, if not nil, is called when an fdatasync begins, once for each image that a power
// failure could leave at that moment. If up to 6 sectors were written, these are all subsets of them;
// if more, none, all, each single one, and all but each single one. crash borrows the image, and runs
// in the goroutine of the Persist.
func NewDisk(path string, crash func(image []byte)) *Disk {
	d := &Disk{path: path, crash: crash}
	d.durable, d.err = os.ReadFile(path)
	return d
}

// Hook returns what pmem.Open takes.
func (d *Disk) Hook() pmem.Hook {
	return func(op pmem.Op, off, n int) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.settle()
		switch op {
		case pmem.OpWrite:
			d.pending = append(d.pending, region.Range{Off: off, N: n})
		case pmem.OpDatasync:
			d.crashes()
			d.synced = true
		default:
		}
		return nil
	}
}

// Durable returns a copy of what is left after a power failure at the least. Nobody may persist at
// the same time. The error is that of reading the file.
func (d *Disk) Durable() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle()
	return slices.Clone(d.durable), d.err
}

// settle makes durable what the last fdatasync covers.
func (d *Disk) settle() {
	if d.synced {
		d.apply(d.durable, d.written(), ^uint64(0))
		d.pending, d.synced = nil, false
	}
}

// written returns the content of the file as the system has it in its cache.
func (d *Disk) written() []byte {
	b, err := os.ReadFile(d.path)
	if err == nil && len(b) != len(d.durable) {
		err = region.ErrRegionLost
	}
	if err != nil {
		d.err = err
		return d.durable
	}
	return b
}

// sectors returns the sectors that were written, ascending.
func (d *Disk) sectors() []int {
	var at []int
	for _, r := range d.pending {
		for s := r.Off / sector; s*sector < r.Off+r.N; s++ {
			at = append(at, s)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// apply copies to image those written sectors of b whose bits in set are set.
func (d *Disk) apply(image, b []byte, set uint64) {
	for i, s := range d.sectors() {
		if set>>(i%64)&1 == 1 {
			copy(image[s*sector:min((s+1)*sector, len(image))], b[s*sector:])
		}
	}
}

// crashes calls crash with the images that are possible now.
func (d *Disk) crashes() {
	if d.crash == nil {
		return
	}
	now, n := d.written(), min(len(d.sectors()), 64)
	all := ^uint64(0)
	var sets []uint64
	if n <= 6 {
		for set := range uint64(1) << n {
			sets = append(sets, set)
		}
	} else {
		sets = []uint64{0, all}
		for i := range n {
			sets = append(sets, 1<<i, all&^(1<<i))
		}
	}
	for _, set := range sets {
		image := slices.Clone(d.durable)
		d.apply(image, now, set)
		d.crash(image)
	}
}
