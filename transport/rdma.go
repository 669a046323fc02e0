package transport

import (
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/responder"
)

// clientUpcalls passes on what arrives on a client's connection, by its direction (RFC 8167).
type clientUpcalls struct{ c *Client }

var _ rdmap.Handler = (*clientUpcalls)(nil)

// HandleRecv takes a reply, or a backward call. It runs in whichever goroutine reads.
func (h *clientUpcalls) HandleRecv(conn *rdmap.Conn, m *verbs.Message) {
	c := h.c
	switch {
	case c.back != nil && !rpcrdma.ForRequester(m.Data, true):
		c.back.HandleRecv(conn, m)
	default:
		conn.PostRecv(1)
		c.req.Receive(conn, m)
	}
}

// HandleClose ends both directions.
func (h *clientUpcalls) HandleClose(conn *rdmap.Conn, err error) {
	h.c.req.Ended(err)
	if h.c.back != nil {
		h.c.back.HandleClose(conn, err)
	}
}

// responder returns the settings of a responder.
func (c *Config) responder() *responder.Config {
	r := &responder.Config{
		Credits: c.Credits, BackwardCredits: c.Backward.Credits, MaxPayload: c.MaxPayload, Private: c.privateData(), Binding: c.Binding,
		AnyCred: c.AnyCred, PreferReplyChunk: c.PreferReplyChunk,
		CloseTimeout: c.Timeouts.Close, Requester: c.requester(), Trace: c.Trace, Logger: c.Logger,
	}
	if p := c.RFC5666; p != nil {
		r.RFC5666 = &responder.RFC5666{Align: p.Align, PeerAlign: p.PeerAlign, DoneTimeout: p.DoneTimeout, MaxExposed: p.MaxExposed, ExposedMemory: p.ExposedMemory}
	}
	return r
}

// requester returns the settings of a requester.
func (c *Config) requester() requester.Config {
	return requester.Config{
		Credits: c.Credits, InlineSend: c.InlineSend, InlineRecv: c.InlineRecv, MaxPayload: c.MaxPayload,
		Bidirectional: c.Backward.Credits > 0, NoRemoteInvalidate: c.NoRemoteInvalidate, Binding: c.Binding,
		RFC5666: c.RFC5666 != nil, PeerAlign: c.rfc5666().PeerAlign, ConfigCred: c.rfc5666().ConfigCred,
		CallTimeout: c.Timeouts.Call, CloseTimeout: c.Timeouts.Close,
		Trace: c.Trace, Logger: c.Logger,
	}
}
