package cases

import (
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Table returns the cases for a peer.
func Table(t Target) []Case {
	g := &gen{Target: t, serial: t.XID}
	var all []Case
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
