package pmemtest

import (
	"bytes"
	"slices"
)

// lineSize is the size of a cache line, in octets.
const lineSize = int(Line)

// version is a content of a line that is not known to be durable. The octets are never changed, so
// snapshots can share them.
type version struct {
	at     uint64 // when: the order among versions, also of neighbouring lines
	stored uint64 // bit k: octet k is new in this version
	octets []byte
}

// span calls f for each line that the n octets at off touch, with the number of the line, the part of
// it that they touch (lo to hi), and the offset of that part in the n octets.
func span(off, n int, f func(line, lo, hi, at int)) {
	for at := 0; at < n; {
		line, lo := (off+at)/lineSize, (off+at)%lineSize
		hi := min(lineSize, lo+n-at)
		f(line, lo, hi, at)
		at += hi - lo
	}
}

// mask returns a mask of the bits lo to hi-1.
func mask(lo, hi int) uint64 { return ^uint64(0) >> (lineSize - (hi - lo)) << lo }

// lineOf returns the octets of a line in b; the last one may be short.
func lineOf(b []byte, line int) []byte {
	return b[line*lineSize : min((line+1)*lineSize, len(b))]
}

// tell records that p was stored at off.
func (s *Sim) tell(off int, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(off, p)
}

// look records what the n octets at off are. It reads them under the lock: if two goroutines look at
// the same octets, the later one must not record the older content.
func (s *Sim) look(off, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(off, appendWords(nil, s.data[off:off+n]))
}

// noteLines is the number of lines whose contents are allocated together.
const noteLines = 8

// note adds a version to each line that p at off changes; s.mu is held. The versions of one store
// share memory.
func (s *Sim) note(off int, p []byte) {
	s.clock++
	var slab []byte
	var first []version // of lines that were clean
	span(off, len(p), func(line, lo, hi, at int) {
		vs := s.dirty[line]
		old := lineOf(s.durable, line)
		if len(vs) > 0 {
			old = vs[len(vs)-1].octets
		}
		if bytes.Equal(old[lo:hi], p[at:at+hi-lo]) {
			return
		}
		if cap(slab)-len(slab) < lineSize {
			n := min(noteLines, (off+len(p)-1)/lineSize-line+1)
			slab, first = make([]byte, 0, n*lineSize), make([]version, 0, n)
		}
		k := len(slab)
		slab = append(slab, old...)
		octets := slab[k:len(slab):len(slab)]
		copy(octets[lo:hi], p[at:])
		v := version{s.clock, mask(lo, hi), octets}
		if len(vs) == 0 {
			first = append(first, v)
			vs = first[len(first)-1 : len(first) : len(first)]
		} else {
			vs = append(slices.Clone(vs), v)
		}
		s.dirty[line] = vs[max(0, len(vs)-s.o.Versions):]
	})
}

// flush makes the n octets at off durable as they are now. Only one flush runs at a time: of two
// flushes of the same octets, the later one must not bring back the older content. The octets are
// read without the lock that stores take, so that the race detector notices if somebody stores to
// them at the same time.
func (s *Sim) flush(off, n int) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	now := s.now()
	s.flushed = appendWords(s.flushed[:0], s.data[off:off+n])
	p := s.flushed
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(s.durable[off:], p)
	span(off, n, func(line, lo, hi, at int) {
		if _, ok := s.dirty[line]; !ok {
			return
		}
		vs := s.rebase(line, lo, p[at:at+hi-lo], now)
		if len(vs) == 0 {
			delete(s.dirty, line)
		} else {
			s.dirty[line] = vs
		}
	})
}

func (s *Sim) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

// rebase returns the versions of a line after p, at lo in the line, became durable. Any earlier
// content of the line may have been written back before. So the medium may hold the rest of that
// content, but then together with p, which came later. What was stored after now may be later than p
// and stays.
func (s *Sim) rebase(line, lo int, p []byte, now uint64) (vs []version) {
	last := lineOf(s.durable, line)
	old := s.dirty[line]
	if len(p) == len(last) && (len(old) == 0 || old[len(old)-1].at <= now) {
		return nil // all of it is p, whenever it was written back
	}
	var later uint64 // octets stored after now
	for _, v := range old {
		if v.at > now {
			later |= v.stored
		}
		octets := slices.Clone(v.octets)
		for k, c := range p {
			if later>>(lo+k)&1 == 0 {
				octets[lo+k] = c
			}
		}
		if !bytes.Equal(octets, last) {
			vs = append(vs, version{v.at, v.stored, octets})
		}
		last = octets
	}
	return vs
}
