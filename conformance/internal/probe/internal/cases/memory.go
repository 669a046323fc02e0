package cases

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// readLen is the size of the header of a Read Request (RFC 5040 Section 4.4).
const readLen = 28

// within reports whether n octets at to of stag are inside s. An offset before s wraps, and so is far beyond
// its end.
func within(s chunks.Segment, stag ddp.STag, to uint64, n int) bool {
	return s.Handle == chunks.Handle(stag) && to-s.Offset <= uint64(s.Length) && uint64(n) <= uint64(s.Length)-(to-s.Offset)
}

// tagged is an RDMA Write, or the response to a Read of ours.
func (w *Watcher) tagged(s *ddp.Segment, body []byte) {
	op := verbs.Opcode(s.Control & 0x0f)
	switch {
	case op == verbs.OpReadResponse && len(body) == 0:
		w.Seen.Reads++
		return
	case op != verbs.OpWrite:
		w.breach("a tagged message with opcode %v", op)
		return
	case len(body) == 0: // a zero-length RDMA Write needs no memory
		return
	}
	for i, m := range w.try.Memory {
		if m.Data == nil && within(m.Segment, s.STag, s.TO, len(body)) {
			copy(w.mem[i][s.TO-m.Segment.Offset:], body)
			w.touched(fmt.Sprintf("wrote %d octets", len(body)))
			return
		}
	}
	w.outside("wrote", s.STag, s.TO, len(body))
	w.refuse(verbs.TermCode{Layer: 1, EType: 1})
}

// outside is an access to memory that does not exist. If it was offered all the same, as bait, the access is
// fine.
func (w *Watcher) outside(did string, stag ddp.STag, to uint64, n int) {
	what := fmt.Sprintf("%s %d octets at %#x of STag %#x", did, n, to, uint32(stag))
	for _, s := range w.try.Said {
		if within(s, stag, to, n) {
			w.touched(what)
			return
		}
	}
	w.breach("it %s, which nobody has offered", what)
}

func (w *Watcher) touched(s string) {
	if n := len(w.Seen.Touched); n < 3 {
		w.Seen.Touched = append(w.Seen.Touched, s)
	}
}

// refuse sends a Terminate, once.
func (w *Watcher) refuse(code verbs.TermCode) {
	if !w.Seen.Refused {
		w.Seen.Refused = true
		t := verbs.Terminate{Code: code}
		w.out = append(w.out, untagged(uint8(verbs.OpTerminate), ddp.QNTerminate, 1, t.Append(nil)))
	}
}

// read answers a Read Request as its memory demands.
func (w *Watcher) read(msg []byte) {
	be := binary.BigEndian
	sink, sinkTO, size := ddp.STag(be.Uint32(msg)), be.Uint64(msg[4:]), int(be.Uint32(msg[12:]))
	stag, to := ddp.STag(be.Uint32(msg[16:])), be.Uint64(msg[20:])
	if w.Seen.Refused {
		return
	}
	for _, m := range w.try.Memory {
		if m.Data != nil && m.Reading != ReadRefused && within(m.Segment, stag, to, size) {
			w.touched(fmt.Sprintf("read %d octets", size))
			at := to - m.Segment.Offset
			if data := m.Data[at : at+uint64(size)]; m.cut != nil {
				w.respondCut(m.cut, sink, sinkTO, data)
			} else {
				w.respond(m.Reading, sink, sinkTO, data)
			}
			return
		}
	}
	w.outside("read", stag, to, size)
	w.refuse(verbs.TermCode{Layer: 0, EType: 1})
}

// respond answers a Read with data, or as the memory demands.
func (w *Watcher) respond(how Reading, sink ddp.STag, to uint64, data []byte) {
	switch how {
	case ReadWhole, ReadCut: // see respondCut
	case ReadNever:
		return
	case ReadShort:
		data = data[:len(data)-min(len(data), 4)]
	case ReadLong:
		data = append(append([]byte(nil), data...), 0, 0, 0, 0)
	case ReadElsewhere:
		sink ^= 0x00ffff00
	case ReadPast:
		to += 4
	case ReadRefused:
		return
	}
	w.out = append(w.out, tagged(verbs.OpReadResponse, sink, to, data))
}
