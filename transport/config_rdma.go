package transport

import (
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// rfc5666 returns the settings for that document, the zero value if the connection follows RFC 8166.
func (c *Config) rfc5666() (p RFC5666) {
	if c.RFC5666 != nil {
		p = *c.RFC5666
	}
	return p
}

// privateData returns what this side announces at connection time (RFC 8797 Section 4).
func (c *Config) privateData() rpcrdma.PrivateData {
	return rpcrdma.PrivateData{
		RemoteInvalidate: !c.NoRemoteInvalidate,
		SendSize:         c.InlineSend, RecvSize: c.InlineRecv,
	}
}

// engine returns the settings of the underlying connection.
func (c *Config) engine(recvs int) *rdmap.Config {
	var ext verbs.Extensions
	if c.ImmediateReplies {
		ext = verbs.Ext7306
	}
	return &rdmap.Config{
		Extensions: ext,
		Revision:   c.Startup.Revision, Markers: c.Startup.Markers, PeerToPeer: c.Startup.PeerToPeer, RTR: c.Startup.RTR,
		CRC: c.Startup.CRC, IRD: c.Startup.IRD, ORD: c.Startup.ORD, MULPDU: c.Startup.MULPDU,
		RecvSize: c.InlineRecv, Recvs: recvs,
		SendQueue:        max(rdmap.DefaultSendQueue, c.Credits*(c.InlineSend+16<<10)),
		HandshakeTimeout: c.Startup.Timeout, CloseTimeout: c.Timeouts.Close,
		HandlerLimit: max(c.Reading.HandlerLimit, 0), MaxTakeovers: c.Credits,
		BusyPoll: c.Reading.BusyPoll, Logger: c.Logger,
	}
}
