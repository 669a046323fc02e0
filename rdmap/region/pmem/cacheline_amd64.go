package pmem

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

// How lines are written back. The assembly uses these numbers.
const (
	lineNone = iota
	clflush
	clflushopt
	clwb
)

var (
	lineNames = [...]string{clflush: "CLFLUSH", clflushopt: "CLFLUSHOPT", clwb: "CLWB"}
	lineHow   = detectLines(cpuid)
	lineFence atomic.Uint32
)

// lineInstruction returns the name of the instruction in use, or an error that says why there is none.
func lineInstruction() (string, error) {
	if lineHow == lineNone {
		return "", errors.New("the processor has no cache-line write-back for lines of 64 octets")
	}
	return lineNames[lineHow], nil
}

// detectLines picks the instruction that disturbs least: CLWB may leave the line in the cache; CLFLUSHOPT
// is not ordered with other lines; CLFLUSH is.
func detectLines(cpuid func(leaf, sub uint32) (a, b, c, d uint32)) int {
	_, b1, _, d1 := cpuid(1, 0)
	if d1&(1<<19) == 0 || b1>>8&0xff != lineSize/8 {
		return lineNone
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

// lines returns how many lines cover n octets at address addr, and the address of the
// first.
func lines(addr uintptr, n int) (first uintptr, count int) {
	if n <= 0 {
		return addr, 0
	}
	first = addr &^ (lineSize - 1)
	last := (addr + uintptr(n) - 1) &^ (lineSize - 1)
	return first, int((last-first)/lineSize) + 1
}

// writeBackLines returns when the lines that cover b have been written back from the caches of the
// processor. The store fence at its end orders the write-backs before all later stores. It must not
// be called where lineInstruction returns an error.
func writeBackLines(b []byte) {
	first, count := lines(uintptr(unsafe.Pointer(unsafe.SliceData(b))), len(b))
	if count > 0 {
		writeBack(first, count, lineHow)
	}
}

// evictLines returns when the lines that cover b are in no cache of the processor, so that the next load reads
// memory. It uses CLFLUSH, which every processor has that has an instruction at all. It must not be called where
// lineInstruction returns an error.
func evictLines(b []byte) {
	first, count := lines(uintptr(unsafe.Pointer(unsafe.SliceData(b))), len(b))
	if count > 0 {
		writeBack(first, count, clflush)
		lineFence.Add(1) // a locked instruction: a store fence alone does not hold back loads
	}
}

//go:noescape
func writeBack(addr uintptr, lines, how int)

//go:noescape
func cpuid(leaf, sub uint32) (a, b, c, d uint32)
