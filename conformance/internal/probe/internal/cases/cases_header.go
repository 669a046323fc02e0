package cases

import (
	"fmt"
	"math"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

// between is a try of one Send between two NULL calls.
func (g *gen) between(name string, send func(s *script) []byte, wants ...[]Want) Try {
	s := g.rpc(name)
	return s.send(send(s)).then(wants...)
}

// linux begins the reasons why harmless deviations of Linux 6.1 are tolerated.
const linux = "Linux (6.1) "

// errChunk wants a header refused.
func errChunk() []Want {
	return append(ok(KindErrChunk), tolerate("RFC 5666 Section 4.2 allows an RPC decode error", KindGarbageArgs)...)
}

func (g *gen) badHeaders() []Case {
	const rule = "RFC 8166 Section 4.5"
	var runts, version, proc []Try
	for n := range rpcrdma.MinHeaderSize {
		runts = append(runts, g.between(fmt.Sprintf("%d octets", n), func(s *script) []byte { return words(s.bad, 1, credits, 0, 0, 0, 0)[:n] },
			ok(KindDropped), tolerate(linux+"answers, against the MUST", KindErrChunk, KindErrVers)))
	}
	for _, v := range []uint32{0, 2, 3, math.MaxUint32} {
		version = append(version, g.between(fmt.Sprint(v), func(s *script) []byte {
			return append(words(s.bad, v, credits, 0, 0, 0, 0), g.call(s.bad)...)
		}, ok(KindErrVers)))
	}
	version = append(version, g.between("2, and an unknown rdma_proc", func(s *script) []byte { return words(s.bad, 2, credits, 77, 0, 0, 0) }, ok(KindErrVers)))
	for _, p := range []uint32{5, 77, math.MaxUint32} {
		proc = append(proc, g.between(fmt.Sprint(p), func(s *script) []byte {
			return append(words(s.bad, 1, credits, p, 0, 0, 0), g.call(s.bad)...)
		}, errChunk()))
	}
	fixed := func(name string, wants []Want, w ...uint32) Try {
		return g.between(name, func(s *script) []byte { return words(append([]uint32{s.bad}, w...)...) }, wants)
	}
	empty := append(errChunk(), tolerate(linux+"drops it", KindDropped)...)
	msgp := g.between("", func(s *script) []byte {
		return append(words(s.bad, 1, credits, 2, 4, 1024, 0, 0, 0), g.call(s.bad)...)
	}, ok(KindErrChunk), tolerate("it speaks RFC 5666", KindAnswered))
	return []Case{
		{Name: "header/too-short", Rows: []int{1, 18}, Rule: rule, Sends: "a Send of 0 to 27 octets, then a NULL call", Tries: runts},
		{Name: "header/version", Rule: rule + ".1", Sends: "a NULL call with an rdma_vers other than 1", Tries: version},
		{Name: "header/type", Rule: rule + ".2", Sends: "a NULL call with an rdma_proc that does not exist", Tries: proc},
		{Name: "header/msgp", Rule: "RFC 8166 Section 4.6.1", Sends: "a NULL call by RDMA_MSGP", Tries: []Try{msgp}},
		{Name: "header/done", Rule: "RFC 8166 Section 4.6.2", Sends: "an RDMA_DONE for a reply that does not exist", Tries: []Try{
			fixed("16 octets", ok(KindDropped), 1, credits, 3), fixed("28 octets", ok(KindDropped), 1, credits, 3, 0, 0, 0),
		}},
		{Name: "header/error", Rule: "RFC 8166 Section 4.2.4", Sends: "an RDMA_ERROR, to a responder", Tries: []Try{
			fixed("ERR_CHUNK", ok(KindDropped), 1, credits, 4, 2, 0, 0),
			fixed("ERR_VERS", ok(KindDropped), 1, credits, 4, 1, 1, 1),
			fixed("unknown", ok(KindDropped), 1, credits, 4, 77, 0, 0),
			fixed("of version 2", append(ok(KindDropped), tolerate("its version is checked first", KindErrVers)...), 2, credits, 4, 1, 1, 1),
		}},
		{Name: "header/cut-lists", Rows: []int{1, 18}, Rule: rule + ".2", Sends: "chunk lists that end too early, or do not decode", Tries: []Try{
			fixed("inside a read segment", errChunk(), 1, credits, 0, 1, 40, 7),
			fixed("a boolean of 2", errChunk(), 1, credits, 0, 2, 0, 0),
			fixed("a boolean of 2^32-1", errChunk(), 1, credits, 0, 0, 0, math.MaxUint32),
			fixed("2^32-1 segments in a write chunk", errChunk(), 1, credits, 0, 0, 1, math.MaxUint32, 0, 0),
			fixed("2^28 segments in a write chunk", errChunk(), 1, credits, 0, 0, 1, 1<<28, 0, 0),
			fixed("2^32-1 segments in a reply chunk", errChunk(), 1, credits, 0, 0, 0, 1, math.MaxUint32, 0),
			fixed("2^28 segments in a reply chunk", errChunk(), 1, credits, 1, 0, 0, 1, 1<<28, 0),
		}},
		{Name: "header/nomsg-without-call", Rows: []int{1}, Rule: rule + ".2", Sends: "an RDMA_NOMSG without a call in a chunk", Tries: []Try{
			fixed("no chunk", empty, 1, credits, 1, 0, 0, 0),
			fixed("a reply chunk", empty, 1, credits, 1, 0, 0, 1, 1, 0x7e571200, 1024, 0, 0),
			fixed("a write chunk", empty, 1, credits, 1, 0, 1, 1, 0x7e571200, 1024, 0, 0, 0, 0),
			fixed("a read chunk at 40", empty, 1, credits, 1, 1, 40, 0x7e571200, 4, 0, 0, 0, 0, 0),
		}},
	}
}

// callWith returns a NULL call with lists.
func (g *gen) callWith(xid uint32, l chunks.Lists) []byte {
	return append(header(xid, rpcrdma.MsgTypeMsg, l), g.call(xid)...)
}

// everyWord puts values of 0, 1, large ones and ones that wrap into each word of a good header
// (docs/adversary.md, row 1).
func (g *gen) everyWord() []Case {
	var msg, noMsg []Try
	values := []uint32{0, 1, math.MaxInt32, 1 << 31, math.MaxUint32 - 3, math.MaxUint32}
	for word := range 18 {
		for _, v := range values {
			s := g.rpc(fmt.Sprintf("word %d is %#x", word, v))
			l := chunks.Lists{Write: []chunks.WriteChunk{{s.room(64)}}, Reply: chunks.WriteChunk{s.room(1024)}, HasReply: true}
			msg = append(msg, s.word(g.callWith(s.bad, l), word, v, word >= 7 && word <= 10 || word >= 14 && word <= 17))
		}
	}
	for word := range 13 {
		for _, v := range values {
			s := g.rpc(fmt.Sprintf("word %d is %#x", word, v))
			noMsg = append(noMsg, s.word(s.long(s.memory(g.call(s.bad), ReadWhole)), word, v, false))
		}
	}
	const rule = "RFC 8166 Section 4.5.2"
	const sends = "each word of the header in turn set to 0, 1, 2^31-1, 2^31, 2^32-4 and 2^32-1"
	return []Case{
		{Name: "header/every-word", Rows: []int{1, 18}, Rule: rule, Sends: "a NULL call with a write chunk and a reply chunk, " + sends, Tries: msg},
		{Name: "header/every-word-long", Rows: []int{1, 2, 10, 18}, Rule: rule, Sends: "a NULL call in a read chunk, " + sends, Tries: noMsg},
	}
}

// long returns an RDMA_NOMSG whose call is in segments of position 0.
func (s *script) long(segs ...chunks.Segment) []byte {
	var l chunks.Lists
	for _, seg := range segs {
		l.Read = append(l.Read, chunks.ReadSegment{Segment: seg})
	}
	return header(s.bad, rpcrdma.MsgTypeNoMsg, l)
}

// Words of every header (RFC 8166 Section 4.1).
const (
	wordXID    = 0
	wordVers   = 1
	wordCredit = 2
	wordProc   = 3
)

// word ends s with msg, one word of which was changed. It may be executed only if it is as legal as before.
func (s *script) word(msg []byte, word int, v uint32, legal bool) Try {
	same := string(words(v)) == string(msg[4*word:4*word+4])
	put32(msg, 4*word, v)
	s.TwoXIDs = word == wordXID
	s.send(msg)
	lax := linux + "takes any word but 0 for TRUE"
	switch {
	case same || word == wordCredit:
		return s.then(ok(KindAnswered))
	case word == wordVers:
		return s.then(ok(KindErrVers))
	case legal:
		return s.then(ok(KindAnswered, KindErrChunk, KindTerminated, KindClosed))
	case word == wordXID:
		lax = twoXIDs
	case word == wordProc:
		lax = linux + "looks only at the chunks"
	}
	return s.then(errChunk(), ok(KindDropped, KindTerminated, KindClosed), tolerate(lax, KindAnswered))
}

const twoXIDs = linux + "does not compare the XIDs"
