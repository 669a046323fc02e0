package rdmap

import "github.com/stag-rdma/stag/rdmap/verbs"

// ConnectionState is the result of the startup.
type ConnectionState struct {
	// HandshakeComplete is false before Handshake has succeeded; the other
	// fields are then zero.
	HandshakeComplete bool
	Initiator         bool             // this side sent the MPA Request
	CRC               bool             // CRC32C is generated and checked
	IRD, ORD          int              // inbound and outbound request depth in force
	MULPDU            int              // largest ULPDU this side sends, octets
	StagPeer          bool             // the peer showed a stag capability block
	Extensions        verbs.Extensions // in force
	Revision          int              // MPA revision, 1 or 2
	SendMarkers       bool             // the peer asked for markers: this side sends them
	RecvMarkers       bool             // this side asked for markers: the peer sends them
	PeerToPeer        bool             // the initiator's first FPDU was a ready-to-receive message
}
