package transport

import (
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// Profile is the document that a connection follows.
type Profile = rpcrdma.Profile

// Profiles. RFC 8166, the default, never sends what that document forbids. RFC 5666 adds
// RDMA_MSGP, replies by read list with RDMA_DONE, the Connection Configuration Protocol, and
// chunks for programs without an upper-layer binding.
const (
	ProfileRFC8166 = rpcrdma.RFC8166
	ProfileRFC5666 = rpcrdma.RFC5666
)

// privateData returns what this side announces at connection time (RFC 8797 Section 4).
func (c *Config) privateData() rpcrdma.PrivateData {
	return rpcrdma.PrivateData{
		RemoteInvalidate: !c.NoRemoteInvalidate,
		SendSize:         c.InlineSend, RecvSize: c.InlineRecv,
	}
}

// engine returns the settings of the underlying connection.
func (c *Config) engine(h rdmap.Handler, recvs int) *rdmap.Config {
	var ext verbs.Extensions
	if c.ImmediateReplies {
		ext = verbs.Ext7306
	}
	return &rdmap.Config{
		Extensions: ext,
		Revision:   c.Revision, Markers: c.Markers, PeerToPeer: c.PeerToPeer, RTR: c.RTR,
		CRC: c.CRC, IRD: c.IRD, ORD: c.ORD, MULPDU: c.MULPDU,
		RecvSize: c.InlineRecv, Recvs: recvs, Handler: h,
		SendQueue:        max(rdmap.DefaultSendQueue, c.Credits*(c.InlineSend+16<<10)),
		HandshakeTimeout: c.HandshakeTimeout, CloseTimeout: c.CloseTimeout,
		HandlerLimit: max(c.HandlerGrace, 0), MaxTakeovers: c.Credits,
		BusyPoll: c.BusyPoll, Logger: c.Logger,
	}
}
