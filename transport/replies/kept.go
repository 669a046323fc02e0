package replies

// kept holds which records are in the log, which of them belong to somebody, and which are not needed
// anymore. It has one owner.
type kept struct {
	low   uint64            // all records up to it may be released
	last  uint64            // the last record that has arrived
	swept uint64            // all records up to it belong to somebody or are done
	xids  map[uint64]uint32 // of records between low and last that have arrived in this life
	owned map[uint64]bool   // records that a Call has returned
	done  map[uint64]bool   // records above low that are done
	calls map[uint64]int    // calls in flight, by the value of last when they began
}

func newKept(low, last uint64) kept {
	return kept{
		low: low, last: last, swept: last, xids: make(map[uint64]uint32),
		owned: make(map[uint64]bool), done: make(map[uint64]bool), calls: make(map[uint64]int),
	}
}

// arrived notes that a record has been flushed.
func (k *kept) arrived(seq uint64, xid uint32) { k.last, k.xids[seq] = seq, xid }

// has reports whether a record has arrived, or whether its number is that of another reply.
func (k *kept) has(seq uint64, xid uint32) (there, other bool) {
	got, ok := k.xids[seq]
	return ok && got == xid, ok && got != xid || !ok && seq <= k.last
}

// begin notes that a call begins, and returns the first argument for end.
func (k *kept) begin() uint64 {
	k.calls[k.last]++
	return k.last
}

// end notes that a call has ended, with record seq or 0. It reports whether room became free: a
// record that arrived before all calls in flight began, and that no call has returned, belongs to
// nobody, because its call was given up.
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

// finish notes that a record is not needed anymore.
func (k *kept) finish(seq uint64) bool {
	if seq > k.low && seq <= k.last {
		k.done[seq] = true
	}
	return k.advance()
}

// advance moves low past the records that are done.
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
