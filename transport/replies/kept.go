package replies

// kept says which records are in the log, which of them somebody has, and which are not
// needed any more. It has one owner.
type kept struct {
	low   uint64            // all up to it may be released
	last  uint64            // that has arrived
	swept uint64            // up to it, all belong to somebody or are done
	xids  map[uint64]uint32 // of those between low and last that have arrived in this life
	owned map[uint64]bool   // a Call has returned it
	done  map[uint64]bool   // above low
	calls map[uint64]int    // under way, by what last was when they began
}

func newKept(low, last uint64) kept {
	return kept{
		low: low, last: last, swept: last, xids: make(map[uint64]uint32),
		owned: make(map[uint64]bool), done: make(map[uint64]bool), calls: make(map[uint64]int),
	}
}

// arrived is told that a record has been flushed.
func (k *kept) arrived(seq uint64, xid uint32) { k.last, k.xids[seq] = seq, xid }

// has reports whether a record is there, or its number that of another reply.
func (k *kept) has(seq uint64, xid uint32) (there, other bool) {
	got, ok := k.xids[seq]
	return ok && got == xid, ok && got != xid || !ok && seq <= k.last
}

// begin is told that a call begins, and returns what end wants.
func (k *kept) begin() uint64 {
	k.calls[k.last]++
	return k.last
}

// end is told that a call has ended, with record seq, or 0. It reports whether room became
// free: a record that was there before any call that is under way now began, and that no
// call has returned, belongs to nobody; the call it answered was given up.
func (k *kept) end(began, seq uint64) bool {
	if k.calls[began]--; k.calls[began] == 0 {
		delete(k.calls, began)
	}
	if seq != 0 {
		k.owned[seq] = true
	}
	oldest := k.last
	for at := range k.calls {
		oldest = min(oldest, at)
	}
	for ; k.swept < oldest; k.swept++ {
		if at := k.swept + 1; at > k.low && !k.owned[at] {
			k.done[at] = true
		}
	}
	return k.advance()
}

// finish is told that a record is not needed any more.
func (k *kept) finish(seq uint64) bool {
	if seq > k.low && seq <= k.last {
		k.done[seq] = true
	}
	return k.advance()
}

// advance moves low over what is done.
func (k *kept) advance() bool {
	from := k.low
	for k.done[k.low+1] {
		k.low++
		delete(k.done, k.low)
		delete(k.owned, k.low)
		delete(k.xids, k.low)
	}
	return k.low != from
}
