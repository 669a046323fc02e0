package cacheline

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

// How lines are written back. The assembly uses these numbers.
const (
	none = iota
	clflush
	clflushopt
	clwb
)

var (
	names = [...]string{clflush: "CLFLUSH", clflushopt: "CLFLUSHOPT", clwb: "CLWB"}
	how   = detect(cpuid)
	fence atomic.Uint32
)

// Instruction returns the name of the instruction in use, or an error that says why there is none.
func Instruction() (string, error) {
	if how == none {
		return "", errors.New("the processor has no cache-line write-back for lines of 64 octets")
	}
	return names[how], nil
}

// detect picks the instruction that disturbs least: CLWB may leave the line in the cache; CLFLUSHOPT
// is not ordered with other lines; CLFLUSH is.
func detect(cpuid func(leaf, sub uint32) (a, b, c, d uint32)) int {
	_, b1, _, d1 := cpuid(1, 0)
	if d1&(1<<19) == 0 || b1>>8&0xff != Size/8 {
		return none
	}
	if top, _, _, _ := cpuid(0, 0); top < 7 {
		return clflush
	}
	switch _, b7, _, _ := cpuid(7, 0); {
	case b7&(1<<24) != 0:
		return clwb
	case b7&(1<<23) != 0:
		return clflushopt
	}
	return clflush
}

// WriteBack returns when the lines that cover b have been written back from the caches of the
// processor. The store fence at its end orders the write-backs before all later stores. It must not
// be called where Instruction returns an error.
func WriteBack(b []byte) {
	first, count := Lines(uintptr(unsafe.Pointer(unsafe.SliceData(b))), len(b))
	if count > 0 {
		writeBack(first, count, how)
	}
}

// Evict returns when the lines that cover b are in no cache of the processor, so that the next load reads
// memory. It uses CLFLUSH, which every processor has that has an instruction at all. It must not be called where
// Instruction returns an error.
func Evict(b []byte) {
	first, count := Lines(uintptr(unsafe.Pointer(unsafe.SliceData(b))), len(b))
	if count > 0 {
		writeBack(first, count, clflush)
		fence.Add(1) // a locked instruction: a store fence alone does not hold back loads
	}
}

//go:noescape
func writeBack(addr uintptr, lines, how int)

//go:noescape
func cpuid(leaf, sub uint32) (a, b, c, d uint32)
