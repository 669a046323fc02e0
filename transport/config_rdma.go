package transport

import (
	"github.com/stag-rdma/stag/rdmap"
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
	ec := &rdmap.Config{
		Startup:   c.Startup,
		Receives:  rdmap.Receives{Size: c.InlineRecv, Count: recvs},
		Timeouts:  rdmap.Timeouts{Close: c.Timeouts.Close},
		Reading:   c.Reading,
		SendQueue: max(rdmap.DefaultSendQueue, c.Credits*(c.InlineSend+16<<10)),
		Logger:    c.Logger,
	}
	setDefault(&ec.Reading.MaxHandlers, c.Credits)
	return ec
}
