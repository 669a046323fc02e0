package region

// Window is memory that is registered once and opened again and again. Each opening has a new STag
// with its own bounds and rights; between openings no peer can reach the memory. This is like a
// memory window on an RDMA card. Here it saves a registration and its removal for each opening. A
// Window is a small value that may be copied freely, and belongs to one stream.
//
// Choice: the 24 random bits of the STag are drawn once, and the key counts openings. So an STag
// comes back after 256 openings, for the same memory on the same stream: a peer that kept it can
// do no more than the present opening allows. With peers that are not trusted that far, use
// registrations.
type Window struct {
	e     *entry
	epoch uint64
}

// Window registers mem, and returns a closed Window. mem is lent until Close, or until the Table
// is closed. Errors: ErrClosed, ErrTooMany.
func (t *Table) Window(mem []byte) (Window, error) {
	r, err := t.dom.install(t, nil, mem, Options{window: true})
	if err != nil {
		return Window{}, err
	}
	t.dom.mu.Lock()
	defer t.dom.mu.Unlock()
	if r.e.owner != t || !r.e.window { // the Table was closed in between
		return Window{}, ErrClosed
	}
	return Window{r.e, r.e.epoch}, nil
}

// Open makes the n octets at off reachable, from the TO Region.Base, under a new STag, which is valid until
// Region.Invalidate or invalidation by the peer. It allocates nothing. Errors: ErrOpen,
// ErrBounds, ErrRights, and ErrClosed after Close or the end of the stream.
func (w Window) Open(off, n int, access Access) (Region, error) {
	e := w.e
	if e == nil {
		return Region{}, ErrClosed
	}
	r, t, mem, err := w.open(off, n, access)
	if err != nil {
		return Region{}, err
	}
	return t.named(r, mem, access) // without the lock: a card takes its time
}

// open is Open, but for the card. It returns the Table and the octets too: after the lock is released, the end of the
// connection may take them from the entry.
func (w Window) open(off, n int, access Access) (_ Region, t *Table, mem []byte, _ error) {
	e := w.e
	d := e.dom
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case e.epoch != w.epoch || !e.window:
		return Region{}, nil, nil, ErrClosed
	case e.state.Load() != stateFree:
		return Region{}, nil, nil, ErrOpen
	case off < 0 || n < 0 || off > len(e.whole) || n > len(e.whole)-off:
		return Region{}, nil, nil, ErrBounds
	case access&^accessAll != 0:
		return Region{}, nil, nil, ErrRights
	}
	e.key++
	if e.home == 0 && e.key == 0 { // STag 0 is never used
		e.key++
	}
	stag := STag(e.home<<8 | uint32(e.key))
	e.data, e.access, e.high = e.whole[off:off+n:off+n], access, 0
	if access&Verify != 0 && e.fate == nil {
		e.fate = new(fate) // kept until Close: a new opening does not permit new guesses
	}
	e.state.Store(uint64(stag) << 32)
	return Region{e: e, stag: stag}, e.owner, e.data, nil
}

// Close ends the registration. It returns ErrOpen if the Window is open. It is idempotent.
func (w Window) Close() error {
	if w.e == nil {
		return nil
	}
	d := w.e.dom
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case w.e.epoch != w.epoch || !w.e.window:
		return nil
	case w.e.state.Load() != stateFree:
		return ErrOpen
	}
	w.e.window = false
	d.put(w.e)
	return nil
}
