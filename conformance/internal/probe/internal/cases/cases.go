// Package cases holds what conformance probe sends to a live peer and which answers it accepts: octets and
// expectations, without a connection or a clock.
//
// [Table] returns the cases. Each has one or more tries, which are played on separate connections: an MPA
// Request, steps, and wanted answers. A [Watcher] receives what the peer says, and answers its RDMA Reads as
// the try demands; in the end [Try.Judge] gives the verdict.
package cases

import (
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// Case is one thing that a peer must survive.
type Case struct {
	Name  string // layer and a few words: "mpa/wrong-key"
	Rows  []int  // of docs/adversary.md
	Rule  string // where the documents say so
	Sends string // in words
	Tries []Try
}

// Try is what is sent on one connection, and what is wanted for it.
type Try struct {
	Name string // what distinguishes it; empty if the case has only one try

	// Request is the MPA Request, and whatever follows it at once; nil: the usual one. If Piece is not 0, it
	// is sent in pieces of that many octets. Cut: it is not whole.
	Request []byte
	Piece   int
	Cut     bool
	RTR     mpa.RTR // the first FPDU is this ready-to-receive message, which the Reply must offer

	Steps  []Step
	Finish bool // the output is closed after the last step

	// Memory is what the peer may touch; Said is what the headers that are sent offer.
	Memory []Memory
	Said   []chunks.Segment
	Lists  chunks.Lists // of the call that the try is about

	Fills     bool // data must come into the write chunk
	Responses int  // answers to RDMA Reads that must come, if the connection lives

	Subjects []uint32 // XIDs that the try is about; if none, all but Hello and After
	Hello    uint32   // XID of the call before, 0: none
	TwoXIDs  bool     // rdma_xid is not the XID of the call, so that either may come back
	Again    bool     // a call is sent again, so that an answer may come again
	After    uint32   // XID of the call after, 0: none
	Control  bool     // no part of a case: shows whether the peer is alive
	Hold     bool     // silence is fine: wait for a short time, and check other connections meanwhile

	Wants []Want

	// Excused are rules of the judge that a good peer may break here, and why.
	Excused map[string]string
}

// Step is one write.
type Step struct {
	Raw   []byte // octets of TCP, as they are
	ULPDU []byte // or: a DDP segment, to be sent in an FPDU
	// Spoil changes the FPDU before it is written, and returns what to write.
	Spoil func(fpdu []byte) []byte
	Piece int    // written in pieces of this many octets; 0: whole
	Split int    // or in two pieces, the first of this many octets
	Join  bool   // written together with the next step
	Await uint32 // then wait for the answer to this XID
	Spare bool   // needs a second credit, or a quiet time
}

// Reading says how the peer's RDMA Reads of a memory are answered.
type Reading uint8

// The ways to answer a Read.
const (
	ReadWhole     Reading = iota // as it should be
	ReadRefused                  // by a Terminate: there is no such memory
	ReadNever                    // not at all
	ReadShort                    // with 4 octets less, and L
	ReadLong                     // with 4 octets more
	ReadElsewhere                // to another STag
	ReadPast                     // 4 octets past the sink's end
	ReadCut                      // in pieces
)

// Memory is a piece of the probe's memory.
type Memory struct {
	Segment chunks.Segment
	Data    []byte // what can be read; nil: memory that can be written
	Reading Reading
	cut     func(n int) []piece // of ReadCut
}

// Want is an answer and its verdict.
type Want struct {
	Kind    Kind
	Codes   []verbs.TermCode // of a Terminate; none: any
	Verdict Verdict
	Why     string // of a tolerated answer: who or what allows it
}

// String returns the answer that is wanted.
func (w Want) String() string {
	if w.Kind != KindTerminated {
		return w.Kind.String()
	}
	if len(w.Codes) == 0 {
		return "Terminate"
	}
	codes := make([]string, len(w.Codes))
	for i, c := range w.Codes {
		codes[i] = fmt.Sprintf("%#x/%#x/%#04x", c.Layer, c.EType, c.Code)
	}
	return "Terminate " + strings.Join(codes, " or ")
}

// Wanted returns in words which answers the tries of c want, without those that are tolerated.
func (c *Case) Wanted() string {
	var words []string
	seen := make(map[string]bool)
	for i := range c.Tries {
		for _, w := range c.Tries[i].Wants {
			if s := w.String(); w.Verdict == OK && !seen[s] {
				seen[s] = true
				words = append(words, s)
			}
		}
	}
	return strings.Join(words, ", ")
}

func ok(kinds ...Kind) []Want {
	var ws []Want
	for _, k := range kinds {
		ws = append(ws, Want{Kind: k})
	}
	return ws
}

func tolerate(why string, kinds ...Kind) []Want {
	ws := ok(kinds...)
	for i := range ws {
		ws[i].Verdict, ws[i].Why = Tolerated, why
	}
	return ws
}

// terminate wants a Terminate with one of the codes. Its loss is tolerated.
func terminate(codes ...verbs.TermCode) []Want {
	return append([]Want{{Kind: KindTerminated, Codes: codes}},
		tolerate("the connection ends, though no Terminate was seen: a reset may destroy it", KindClosed)...)
}

// siw tolerates codes of Linux's siw, which names another error than other peers.
func siw(codes ...verbs.TermCode) []Want {
	return []Want{{Kind: KindTerminated, Codes: codes, Verdict: Tolerated, Why: "Linux's siw (6.1) names this error"}}
}

// otherCode tolerates a Terminate with any code.
func otherCode(why string) []Want {
	return []Want{{Kind: KindTerminated, Verdict: Tolerated, Why: why}}
}

// Kind is how a peer answered a try.
type Kind uint8

// The kinds. Those from KindAnswered to KindErrChunk are answers to the call that the
// try is about.
const (
	KindSilent       Kind = iota // nothing, and the connection is open
	KindAnswered                 // RPC reply: SUCCESS
	KindGarbageArgs              // RPC reply: GARBAGE_ARGS
	KindProgUnavail              // RPC reply: PROG_UNAVAIL
	KindProgMismatch             // RPC reply: PROG_MISMATCH
	KindProcUnavail              // RPC reply: PROC_UNAVAIL
	KindSystemErr                // RPC reply: SYSTEM_ERR
	KindRPCMismatch              // RPC reply: RPC_MISMATCH
	KindAuthError                // RPC reply: AUTH_ERROR
	KindErrVers                  // RDMA_ERROR: ERR_VERS
	KindErrChunk                 // RDMA_ERROR: ERR_CHUNK
	KindNonsense                 // something that does not decode
	KindDropped                  // no answer, but the call after it was answered
	KindTerminated               // a Terminate
	KindClosed                   // the connection ended without a Terminate
	KindRejected                 // an MPA Reply with R=1
	KindAccepted                 // an MPA Reply with R=0, if the try needs no more
)

var kindNames = [...]string{
	KindSilent: "silence", KindAnswered: "answered", KindGarbageArgs: "GARBAGE_ARGS", KindProgUnavail: "PROG_UNAVAIL",
	KindProgMismatch: "PROG_MISMATCH", KindProcUnavail: "PROC_UNAVAIL", KindSystemErr: "SYSTEM_ERR",
	KindRPCMismatch: "RPC_MISMATCH", KindAuthError: "AUTH_ERROR", KindErrVers: "ERR_VERS", KindErrChunk: "ERR_CHUNK",
	KindNonsense: "nonsense", KindDropped: "no answer", KindTerminated: "Terminate", KindClosed: "closed",
	KindRejected: "rejected", KindAccepted: "accepted",
}

// String returns the kind as the report names it.
func (k Kind) String() string { return kindNames[k] }

// Verdict says whether an answer is right.
type Verdict uint8

// The verdicts, from good to bad.
const (
	OK        Verdict = iota // what the documents name
	Tolerated                // something that they allow, or that a known peer does without harm
	Fails                    // something else
)

// String returns "ok", "tolerated" or "fails".
func (v Verdict) String() string { return [...]string{"ok", "tolerated", "fails"}[v] }

// UsualCall is the case in which nothing is unusual. What a peer does wrong there it does wrong everywhere.
const UsualCall = "mpa/usual"

// Table returns the cases for a peer.
func Table(t Target) []Case {
	g := &gen{Target: t, serial: t.XID}
	all := []Case{{Name: UsualCall, Rule: "RFC 5044 Section 7.1.2", Sends: "the usual Request, then a NULL call", Tries: []Try{g.good("", usual())}}}
	for _, part := range [][]Case{
		g.badStartup(), g.goodStartup(), g.badFPDU(), g.goodFPDU(), g.badDDP(), g.goodDDP(), g.badRDMAP(), g.goodRDMAP(),
		g.badHeaders(), g.everyWord(), g.chunkLists(), g.liars(), g.rpcCalls(), g.credits(), g.reads(), g.silent(),
	} {
		all = append(all, part...)
	}
	return all
}

// Alive returns the try that every live peer passes: a NULL call.
func Alive(t Target, xid uint32) Try {
	g := &gen{Target: t, serial: xid - 1}
	try := g.good("", usual())
	try.Control = true
	return try
}

// NullCall returns the ULPDU of a NULL call, the Send with number msn of its connection.
func NullCall(t Target, xid, msn uint32) []byte {
	return untagged(uint8(verbs.OpSend), ddp.QNSend, msn, t.null(xid))
}

// declared returns the segments that the lists of a header declare, read as tolerantly as possible:
// versions, lengths and sums are not checked, and every word but 0 is TRUE.
func declared(msg []byte) (segs []chunks.Segment) {
	if len(msg) < rpcrdma.FixedSize {
		return nil
	}
	d := xdr.NewDecoder(msg[rpcrdma.FixedSize:])
	segment := func() {
		s := chunks.Segment{Handle: chunks.Handle(d.Uint32()), Length: d.Uint32(), Offset: d.Uint64()}
		if d.Err() == nil {
			segs = append(segs, s)
		}
	}
	for d.Err() == nil && d.Uint32() != 0 {
		d.Uint32() // Position
		segment()
	}
	chunk := func() {
		for n := d.Uint32(); n > 0 && d.Err() == nil; n-- {
			segment()
		}
	}
	for d.Err() == nil && d.Uint32() != 0 {
		chunk()
	}
	if d.Err() == nil && d.Uint32() != 0 {
		chunk()
	}
	return segs
}
