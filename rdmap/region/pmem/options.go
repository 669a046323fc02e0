package pmem

import (
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem/internal/hook"
)

// Options of a memory. Nil and zero fields mean the defaults. They are copied.
type Options struct {
	// Size, in octets, is what the file must have. If zero, any size will do.
	Size int
	// PersistTimeout limits one flush. When it passes, the memory has failed with
	// region.ErrPinned: Failed is closed, and who waits is told. If zero, 60 seconds; if
	// negative, there is no limit.
	PersistTimeout time.Duration
	// Detached makes Persist return at that deadline even to the caller whose goroutine
	// would otherwise be the one that hangs, for the price of a switch to another one:
	// about 15 microseconds beside 120 of a disk.
	Detached bool
	// CloseTimeout limits how long Close waits for calls under way. If zero, 10
	// seconds; if negative, there is no limit.
	CloseTimeout time.Duration
	// Hooks makes system calls fail or hang, in tests. It comes from
	// pmemtest.Faults.Hooks.
	Hooks *hook.Hooks
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.PersistTimeout == 0 {
		d.PersistTimeout = 60 * time.Second
	}
	if d.CloseTimeout == 0 {
		d.CloseTimeout = 10 * time.Second
	}
	return d
}
