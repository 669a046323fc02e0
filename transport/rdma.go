package transport

import (
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/requester"
)

// clientUpcalls passes on what arrives on a client's connection, by its direction (RFC 8167).
type clientUpcalls struct{ c *Client }

var _ rdmap.Handler = (*clientUpcalls)(nil)

// HandleRecv takes a reply, or a backward call. It runs in whichever goroutine reads.
func (h *clientUpcalls) HandleRecv(conn *rdmap.Conn, m *verbs.Message) {
	c := h.c
	switch {
	case m.Op == verbs.OpImmediate || m.Op == verbs.OpImmediateSE:
		c.req.ReceiveImmediate(conn, m)
	case c.back != nil && !rpcrdma.ForRequester(m.Data, true):
		(*respUpcalls)(c.back).HandleRecv(conn, m)
	default:
		conn.PostRecv(1)
		c.req.Receive(conn, m)
	}
}

// HandleClose ends both directions.
func (h *clientUpcalls) HandleClose(conn *rdmap.Conn, err error) {
	h.c.req.Ended(err)
	if h.c.back != nil {
		(*respUpcalls)(h.c.back).HandleClose(conn, err)
	}
}

// requester returns the settings of a requester.
func (c *Config) requester() requester.Config {
	return requester.Config{
		Credits: c.Credits, InlineSend: c.InlineSend, InlineRecv: c.InlineRecv, MaxPayload: c.MaxPayload,
		Bidirectional: c.Backward.Credits > 0, NoRemoteInvalidate: c.NoRemoteInvalidate, Binding: c.Binding,
		RFC5666: c.RFC5666 != nil, PeerAlign: c.rfc5666().PeerAlign, ConfigCred: c.rfc5666().ConfigCred,
		CallTimeout: c.Timeouts.Call, CloseTimeout: c.Timeouts.Close,
		Immediate: c.Immediate, Trace: c.Trace, Logger: c.Logger,
	}
}
