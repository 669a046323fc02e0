// Package fault turns a memory fault inside a mapping into an error.
package fault

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// Error is a fault at octet Off of a mapping.
type Error struct {
	Off int
	Err error // of the runtime
}

// Error says where.
func (e *Error) Error() string { return fmt.Sprintf("fault at octet %d", e.Off) }

// Unwrap returns the error of the runtime.
func (e *Error) Unwrap() error { return e.Err }

// Catch runs f and returns its error, or where f faulted at an address of mem.
// It works on faults in this goroutine only, those in the assembly of copy and of hash
// functions included. Every other panic goes on, with the same value.
//
// Without it SIGBUS ends the process, and no recover helps: by default the runtime
// makes a panic of faults near address 0 only.
func Catch(mem []byte, f func() error) (at *Error, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		off, ok := within(mem, r)
		if !ok {
			panic(r)
		}
		at = &Error{Off: off, Err: r.(error)}
	}()
	return nil, f()
}

// within returns the offset in mem of the fault that r tells of.
func within(mem []byte, r any) (off int, ok bool) {
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
