package cases

import (
	"fmt"
	"math"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/verbs"
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

func (g *gen) chunkLists() []Case {
	var small, many []Try
	write := func(name string, lists func(s *script) chunks.Lists, wants ...[]Want) Try {
		s := g.rpc(name)
		return s.send(g.callWith(s.bad, lists(s))).then(append(wants, ok(KindAnswered))...)
	}
	rooms := func(s *script, sizes ...int) (c chunks.WriteChunk) {
		for _, n := range sizes {
			c = append(c, s.room(n))
		}
		return c
	}
	ones := func(n int) []int { return slices.Repeat([]int{1}, n) }
	unused := func(name string, c ...[]int) Try {
		return write(name, func(s *script) (l chunks.Lists) {
			for _, sizes := range c {
				l.Write = append(l.Write, rooms(s, sizes...))
			}
			return l
		})
	}
	none := unused("no segment", nil)
	none.Wants = append(none.Wants, tolerate(linux+"does not accept a write chunk without segments", KindErrChunk)...)
	reply := func(name string, sizes ...int) Try {
		return write(name, func(s *script) chunks.Lists { return chunks.Lists{Reply: rooms(s, sizes...), HasReply: true} })
	}
	first := reply("an empty segment first", 0, 1024)
	first.Wants = append(first.Wants, tolerate("a segment of no octets is of no use", KindErrChunk)...)
	for _, t := range []Try{reply("no segment"), reply("of 0 octets", 0), reply("of 1 octet", 1), reply("of 20 octets", 20), reply("6 segments of 3 octets", 3, 3, 3, 3, 3, 3)} {
		t.Wants = append(t.Wants, tolerate("it uses reply chunks whenever one is offered (RFC 8166 Section 4.3.3 lets it answer inline)", KindErrChunk)...)
		small = append(small, t)
	}
	for _, t := range []Try{unused("200 segments", ones(200)), unused("8 chunks", ones(1), ones(1), ones(1), ones(1), ones(1), ones(1), ones(1), ones(1)), reply("200 segments", ones(200)...)} {
		t.Wants = append(t.Wants, ok(KindErrChunk)...)
		many = append(many, t)
	}
	return []Case{
		{Name: "chunks/unused-write", Rows: []int{11}, Rule: "RFC 8166 Section 4.3.2", Sends: "a NULL call with write chunks, which come back unused", Tries: []Try{
			unused("one", []int{64}), unused("three segments", []int{64, 0, 7}), none, unused("two chunks", []int{64}, []int{64, 64}),
		}},
		{Name: "chunks/reply", Rows: []int{11}, Rule: "RFC 8166 Section 4.3.3", Sends: "a NULL call with a reply chunk", Tries: []Try{
			reply("1 KiB", 1024), reply("24 octets, exactly the reply", 24), reply("24 segments of an octet", ones(24)...), first,
		}},
		{Name: "chunks/small-reply", Rows: []int{11}, Rule: "RFC 8166 Section 4.5.3", Sends: "a NULL call with a reply chunk that is too small for the reply", Tries: small},
		{Name: "chunks/many", Rows: []int{1}, Rule: "RFC 8166 Section 4.5.2", Sends: "a NULL call with more chunks or segments than anybody needs", Tries: many},
		{Name: "chunks/long-call", Rows: []int{2, 3}, Rule: "RFC 8166 Section 3.5", Sends: "a NULL call in a read chunk of position 0", Tries: g.longCalls()},
		{Name: "chunks/long-call-bad", Rows: []int{1, 2, 18}, Rule: "RFC 8166 Section 4.5.2", Sends: "a read chunk of position 0 that contains something other than the call", Tries: g.badLongCalls()},
		{Name: "chunks/absurd", Rows: []int{1, 18}, Rule: "RFC 8166 Section 8.1.4", Sends: "read chunks of position 0 that declare gigabytes", Tries: g.absurd()},
		{Name: "chunks/position", Rows: []int{2}, Rule: "RFC 8166 Sections 3.4.5, 6.1", Sends: "a NULL call with read chunks, although it has no argument that could be in them", Tries: g.positions()},
		{Name: "chunks/bad-stag", Rows: []int{10}, Rule: "RFC 8166 Section 4.5.3", Sends: "a read chunk with an STag that does not exist: the Read is refused by a Terminate", Tries: []Try{g.reading("", ReadRefused, ok(KindClosed))}},
		{Name: "chunks/read-response", Rows: []int{10, 14}, Rule: "RFC 5040 Section 7.2", Sends: "a wrong response to the server's RDMA Read", Tries: []Try{
			g.reading("L too early", ReadShort, terminate(codesRDMAP(2, 0xff, 7)...), otherCode("no document names a code for it")),
			g.reading("too long", ReadLong, terminate(codesDDP(1, 1)...)),
			g.reading("another STag", ReadElsewhere, terminate(codesDDP(1, 0, 2)...)),
			g.reading("past the end", ReadPast, terminate(codesDDP(1, 1)...)),
		}},
		{Name: "slow/no-read-response", Rows: []int{10, 20}, Rule: "RFC 8166 Section 4.5.3", Sends: "a read chunk, and no response to the server's RDMA Read", Tries: []Try{g.neverRead()}},
	}
}

// reading is a long call whose Reads are not answered as they should be.
func (g *gen) reading(name string, how Reading, wants ...[]Want) Try {
	s := g.rpc(name)
	s.send(s.long(s.memory(g.call(s.bad), how)))
	return s.want(wants...)
}

func (g *gen) neverRead() Try {
	t := g.reading("", ReadNever, ok(KindSilent, KindClosed, KindTerminated))
	t.Hold = true
	return t
}

func (g *gen) longCalls() []Try {
	// cut returns the call in segments that end at the given offsets.
	cutAt := func(name string, ends ...int) Try {
		s := g.rpc(name)
		call, at := g.call(s.bad), 0
		var segs []chunks.Segment
		for _, end := range append(ends, len(call)) {
			segs = append(segs, s.memory(append([]byte{}, call[at:end]...), ReadWhole))
			at = end
		}
		t := s.send(s.long(segs...)).about(s.bad).then(ok(KindAnswered))
		for _, m := range t.Memory {
			if m.Segment.Length == 0 {
				t.Wants = append(t.Wants, tolerate("a segment of no octets is of no use", KindErrChunk)...)
				break
			}
		}
		return t
	}
	every := make([]int, 0, 39)
	for n := 1; n < 40; n++ {
		every = append(every, n)
	}
	return []Try{
		cutAt("one segment"), cutAt("two segments", 20), cutAt("unaligned ones", 1, 7, 22), cutAt("an octet each", every...),
		cutAt("an empty one first", 0), cutAt("empty ones among them", 8, 8, 8, 30),
	}
}

func (g *gen) badLongCalls() []Try {
	long := func(name string, call func(s *script) []byte, wants ...[]Want) Try {
		s := g.rpc(name)
		return s.send(s.long(s.memory(call(s), ReadWhole))).then(append(wants, errChunk())...)
	}
	dropped := append(tolerate("RFC 5531 has no answer to it", KindDropped), noVerifier()...)
	return []Try{
		long("another XID", func(s *script) []byte {
			s.TwoXIDs = true
			return g.call(g.xid())
		}, tolerate(twoXIDs, KindAnswered)),
		long("nothing", func(*script) []byte { return []byte{} }, dropped),
		long("4 octets", func(s *script) []byte { return words(s.bad) }, dropped),
		long("all but the last word", func(s *script) []byte { return g.call(s.bad)[:36] }, dropped),
		long("all but the last octet", func(s *script) []byte { return g.call(s.bad)[:39] }, dropped),
		long("msg_type 7", func(s *script) []byte { return put32(g.call(s.bad), 4, 7) }, dropped),
	}
}

func (g *gen) absurd() []Try {
	long := func(name string, lengths ...uint32) Try {
		s := g.rpc(name)
		var segs []chunks.Segment
		for i, n := range lengths {
			segs = append(segs, chunks.Segment{Handle: chunks.Handle(0x7e57a000 + uint32(i)<<8), Length: n})
		}
		return s.send(s.long(segs...)).then(errChunk(), tolerate("it tries to read them", KindClosed, KindTerminated))
	}
	return []Try{
		long("2^32-1 octets", math.MaxUint32), long("2^31 octets twice", 1<<31, 1<<31), long("2^32-1 and 41 octets", math.MaxUint32, 41),
		long("1 GiB", 1<<30), long("16 MiB sixteen times", 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24, 1<<24),
	}
}

// noVerifier tolerates a GARBAGE_ARGS that is too short.
func noVerifier() []Want {
	return tolerate(linux+"leaves the verifier out of GARBAGE_ARGS", KindNonsense)
}

// positions are read chunks of calls that cannot have any.
func (g *gen) positions() []Try {
	ignored := tolerate("RFC 5667 Section 4 lets a server ignore it", KindAnswered)
	read := func(name string, at ...uint32) Try {
		s := g.rpc(name)
		var l chunks.Lists
		for _, p := range at {
			l.Read = append(l.Read, chunks.ReadSegment{Position: p, Segment: s.memory(make([]byte, 8), ReadWhole)})
		}
		return s.send(g.callWith(s.bad, l)).then(errChunk(), ignored, tolerate(linux+"closes the connection", KindClosed))
	}
	list := []Try{
		read("after the call", 40), read("inside the header", 24), read("two", 40, 48), read("the same again after another", 40, 48, 40),
		read("overlapping", 40, 44), read("descending", 48, 40), read("0, in an RDMA_MSG", 0),
	}
	for _, p := range []uint32{1, 39, 41, 43, 44, 1000, math.MaxInt32, 1 << 31, math.MaxUint32 - 3, math.MaxUint32} {
		list = append(list, read(fmt.Sprint(p), p))
	}
	wrap := g.rpc("a segment that wraps")
	wrap.send(g.callWith(wrap.bad, chunks.Lists{Read: []chunks.ReadSegment{{Position: 40, Segment: chunks.Segment{Handle: 0x7e57a000, Length: 64, Offset: math.MaxUint64 - 3}}}}))
	return append(list, wrap.then(errChunk(), ignored, tolerate("it tries to read it", KindClosed), []Want{{Kind: KindTerminated, Codes: []verbs.TermCode{}, Verdict: Tolerated, Why: "it cannot read it"}}))
}
