package region

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"
)

// ErrAlign: an atomic operation on a word at an address that is not a multiple of 8 (RFC 7306
// Section 8.2).
var ErrAlign = errors.New("region: word not aligned")

// The operations below act on the octets of a view that has exactly 8, which hold a 64-bit value in
// the byte order of this machine. They use the machine's 64-bit atomics on the memory itself. So
// they are atomic in the whole process, whatever STag, domain or use of sync/atomic reaches the
// word. Errors: ErrBounds if the view has another length, ErrAlign, and those of Guard.

// FetchAdd adds add to the word and returns what it held before (RFC 7306 Section 5.1.1). Each bit
// set in mask is the highest bit of a field, whose carry is dropped; see AddFields.
func (v *View) FetchAdd(add, mask uint64) (old uint64, err error) {
	return v.update(wordOp{add: true, value: add, mask: mask})
}

// CmpSwap replaces the bits swapMask of the word by those of swap if its bits compareMask equal
// those of compare. It returns what the word held before (RFC 7306 Section 5.1.2).
func (v *View) CmpSwap(compare, compareMask, swap, swapMask uint64) (old uint64, err error) {
	return v.update(wordOp{value: swap, mask: swapMask, compare: compare, compareMask: compareMask})
}

// Swap replaces the word by value and returns what it held before.
func (v *View) Swap(value uint64) (old uint64, err error) {
	return v.update(wordOp{value: value, mask: ^uint64(0)})
}

// StoreWord stores the octets of p in one 64-bit store.
func (v *View) StoreWord(p [8]byte) error {
	w, err := v.word()
	if err != nil {
		return err
	}
	value := binary.NativeEndian.Uint64(p[:])
	if v.Guarded() {
		return v.Guard(func() error { atomic.StoreUint64(w, value); return nil })
	}
	atomic.StoreUint64(w, value)
	return nil
}

// wordOp is a FetchAdd if add is set, otherwise a CmpSwap.
type wordOp struct {
	add                               bool
	value, mask, compare, compareMask uint64
}

// next returns the new value of a word that holds old, and whether to store it.
func (o *wordOp) next(old uint64) (uint64, bool) {
	if o.add {
		return AddFields(old, o.value, o.mask), true
	}
	return old&^o.mask | o.value&o.mask, (o.compare^old)&o.compareMask == 0
}

func (o *wordOp) apply(w *uint64) uint64 {
	for {
		old := atomic.LoadUint64(w)
		next, do := o.next(old)
		if !do || atomic.CompareAndSwapUint64(w, old, next) {
			return old
		}
	}
}

func (v *View) update(o wordOp) (old uint64, err error) {
	w, err := v.word()
	if err != nil {
		return 0, err
	}
	if v.Guarded() {
		return v.updateGuarded(w, o)
	}
	return o.apply(w), nil
}

func (v *View) updateGuarded(w *uint64, o wordOp) (old uint64, err error) {
	err = v.Guard(func() error { old = o.apply(w); return nil })
	return old, err
}

// word returns the address of the view's word.
func (v *View) word() (*uint64, error) {
	if len(v.data) != 8 {
		return nil, ErrBounds
	}
	p := unsafe.Pointer(unsafe.SliceData(v.data))
	if uintptr(p)%8 != 0 {
		return nil, ErrAlign
	}
	return (*uint64)(p), nil
}

// AddFields returns a+b in the fields whose highest bits are set in mask; mask 0 means one field
// of 64 bits. No carry leaves a field.
func AddFields(a, b, mask uint64) uint64 { return (a&^mask + b&^mask) ^ (a^b)&mask }
