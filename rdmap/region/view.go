package region

// View is a pinned piece of a region. It belongs to one goroutine at a time and must
// be released exactly once; copies of a View share one pin.
type View struct {
	e    *entry
	data []byte
	off  int
}

// Bytes lends the octets of the view until Release.
func (v *View) Bytes() []byte { return v.data }

// Offset returns the position of Bytes in the registered memory, in octets, as Memory().Persist
// needs it.
func (v *View) Offset() int { return v.off }

// Memory returns the registered Memory, which is a Bytes for a plain slice. It may be used until
// Release.
func (v *View) Memory() Memory {
	if v.e.mem == nil {
		return Bytes(v.e.data)
	}
	return v.e.mem
}

// Forward moves v to the n octets that follow it in the same registration, with the same rights.
// It returns false, and leaves v unchanged, if fewer octets follow or the registration has become
// invalid.
func (v *View) Forward(n int) bool {
	e := v.e
	if e == nil || e.state.Load()&revokedBit != 0 || e.fate != nil && e.dead() {
		return false
	}
	off := v.off + len(v.data)
	if n < 0 || n > len(e.data)-off {
		return false
	}
	v.data, v.off = e.data[off:off+n:off+n], off
	return true
}

// Size returns the octets of the whole registration.
func (v *View) Size() int { return len(v.e.data) }

// Fresh reports whether nothing was placed in the view or behind it, as far as Filled was told. It needs the right Scratch.
func (v *View) Fresh() bool { return v.off >= v.e.high }

// Extend makes the view reach to the end of the registration.
func (v *View) Extend() { v.data = v.e.data[v.off:len(v.e.data):len(v.e.data)] }

// Filled says that the first n octets of the view were placed. Who reads the stream calls it.
func (v *View) Filled(n int) {
	if e := v.e; e != nil && e.access&Scratch != 0 {
		e.high = max(e.high, v.off+n)
	}
}

// Release ends the use of the octets. Releasing a View again, or the zero View, does
// nothing.
func (v *View) Release() {
	if e := v.e; e != nil {
		*v = View{}
		e.unpin()
	}
}
