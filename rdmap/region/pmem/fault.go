package pmem

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// faultError is a fault at octet Off of a mapping.
type faultError struct {
	Off int
	Err error // the runtime's error
}

// Error implements error.
func (e *faultError) Error() string { return fmt.Sprintf("fault at octet %d", e.Off) }

// Unwrap returns the runtime's error.
func (e *faultError) Unwrap() error { return e.Err }

// catchFault runs f and returns its error, or the fault if f faulted at an address in mem. It catches only
// faults in this goroutine, including those in the assembly of copy and of hash functions. Every
// other panic continues with the same value.
//
// Without it SIGBUS ends the process, and no recover helps: by default the runtime turns only
// faults near address 0 into panics.
func catchFault(mem []byte, f func() error) (at *faultError, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		off, ok := faultWithin(mem, r)
		if !ok {
			panic(r)
		}
		at = &faultError{Off: off, Err: r.(error)}
	}()
	return nil, f()
}

// faultWithin returns the offset in mem of the fault that the panic value r describes.
func faultWithin(mem []byte, r any) (off int, ok bool) {
	e, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok || len(mem) == 0 {
		return 0, false
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	if d := e.Addr() - base; d < uintptr(len(mem)) {
		return int(d), true
	}
	return 0, false
}
