package judge

import "hash/maphash"

// headerRing remembers the last DDP headers that a direction has sent, to find the header that a Terminate
// quotes. It takes 32 KiB when full.
type headerRing struct {
	entries []uint64 // high 48 bits: of the header's hash; low 16: length of its ULPDU
	next    int      // where the next goes once entries is full
}

const maxHeaders = 4096

var headerSeed = maphash.MakeSeed()

func headerHash(header []byte) uint64 { return maphash.Bytes(headerSeed, header) &^ 0xffff }

// add remembers the header of a ULPDU of n octets.
func (r *headerRing) add(header []byte, n int) {
	e := headerHash(header) | uint64(n)&0xffff
	if len(r.entries) < maxHeaders {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[r.next] = e
	r.next = (r.next + 1) % maxHeaders
}

// find returns the length of the ULPDU that had the header, the youngest if there were several. With all,
// nothing has been forgotten: a header that is not found was never sent.
func (r *headerRing) find(header []byte) (n int, found, all bool) {
	h := headerHash(header)
	for i := range r.entries {
		e := r.entries[(r.next+len(r.entries)-1-i)%len(r.entries)]
		if e&^0xffff == h {
			return int(e & 0xffff), true, true
		}
	}
	return 0, false, len(r.entries) < maxHeaders
}
