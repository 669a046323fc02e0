package decode

import (
	"sort"
	"time"
)

// Stamp says where octets came from: a packet of a capture. For streams that were never packets, any
// increasing Frame will do.
type Stamp struct {
	Frame int       // number of the packet, from 1
	Time  time.Time // when it was captured
}

// span says that the octets of a stream up to, but not including, offset end came with packet at.
type span struct {
	end uint64
	at  Stamp
}

// spans maps stream offsets to packets for the octets that are buffered. Ends ascend.
type spans []span

// add notes that the stream now ends at offset end, with packet at.
func (s *spans) add(end uint64, at Stamp) { *s = append(*s, span{end, at}) }

// find returns the packet that brought the octet at offset off, or the zero Stamp if the octet is not
// buffered any more.
func (s spans) find(off uint64) Stamp {
	i := sort.Search(len(s), func(i int) bool { return s[i].end > off })
	if i == len(s) {
		return Stamp{}
	}
	return s[i].at
}

// drop forgets the packets that only brought octets before off.
func (s *spans) drop(off uint64) {
	n := 0
	for n < len(*s) && (*s)[n].end <= off {
		n++
	}
	*s = append((*s)[:0], (*s)[n:]...)
}
