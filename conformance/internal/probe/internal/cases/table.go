package cases

import (
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

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
