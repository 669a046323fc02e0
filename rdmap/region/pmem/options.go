package pmem

import (
	"time"
)

// Options has the settings of a memory. Nil and zero fields mean the defaults. They are copied.
type Options struct {
	// Size is the size in octets that the file must have. If zero, any size is accepted.
	Size int
	// PersistTimeout limits one flush. When it passes, the memory has failed with
	// region.ErrPinned: Failed is closed, and waiting callers get the error. If zero, 60 seconds;
	// if negative, there is no limit.
	PersistTimeout time.Duration
	// CloseTimeout limits how long Close waits for running calls. If zero, 10 seconds; if
	// negative, there is no limit.
	CloseTimeout time.Duration
	// Hooks makes operations fail or hang, in tests. It comes from
	// pmemtest.Faults.Hooks.
	Hooks *Hooks
}

// orDefault returns a copy of o; flush has the defaults of its fields.
func (o *Options) orDefault() Options {
	if o == nil {
		return Options{}
	}
	return *o
}
