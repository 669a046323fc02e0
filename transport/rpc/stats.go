package rpc

// Stats is a snapshot of counters, in groups. Octets count payload, without DDP and MPA headers.
type Stats struct {
	CallStats
	ChunkStats
	ExposedStats
	ConnStats
	SecurityStats
	AdmissionStats
	DuplicateStats
}

// CallStats are of calls, and of the messages that carry them.
type CallStats struct {
	// Calls counts calls sent (client) or received (server); Replies those answered. InFlight is the number of calls
	// without a reply now.
	Calls, Replies uint64
	InFlight       int
	// Errors counts calls that ended with an error of the transport, including refused headers. Unbound counts those of
	// them that got ERR_CHUNK because Config.Binding lets nothing of their procedure travel in chunks.
	Errors, Unbound uint64
	// Dropped counts messages that were dropped as RFC 8166 Section 4.5 demands.
	Dropped uint64
	// Panics counts handlers that panicked, and connections that a panic has ended.
	Panics uint64
	// Takeovers counts handlers from which the watchdog took the reading role.
	Takeovers uint64
	// Late counts calls that were not executed although they had been read: their connection had ended,
	// or they must not run twice and their client had closed it and come back on a newer one.
	Late uint64
	// BackwardCalls counts calls of the backward direction (RFC 8167), sent (server) or received
	// (client). BackwardReplies counts those answered.
	BackwardCalls, BackwardReplies uint64
	// OctetsInline is the size of the Sends of calls and replies, headers included;
	// on record-marked TCP, of the records.
	OctetsInline uint64
	// Padded counts messages sent (client) or received (server) as RDMA_MSGP, LongCalls the calls in a Position Zero
	// chunk (RFC 8166 Section 3.5).
	Padded, LongCalls uint64
}

// ChunkStats are of the data that RDMA moves.
type ChunkStats struct {
	// OctetsRead is the number of octets of chunks of calls, which servers move by RDMA Read.
	OctetsRead uint64
	// OctetsWritten is the number of octets moved by RDMA Write: write chunks and reply chunks.
	OctetsWritten uint64
	// ReadSegments, WriteSegments and ReplySegments count the segments of the read lists, write lists and reply
	// chunks that calls have offered. OctetsOffered is the room for results.
	ReadSegments, WriteSegments, ReplySegments uint64
	OctetsOffered                              uint64
	// Deferred counts calls of a server whose data stayed at the client until the handler pulled
	// it. Unpulled counts those of them whose data was never pulled.
	Deferred, Unpulled uint64
	// Registered counts registrations of memory for the chunks of calls, Reused the uses of a
	// Memory that needed none, Invalidated the replies that revoked an STag. OctetsLent is the number of octets that
	// peers can reach now, without exposed replies.
	Registered, Reused, Invalidated uint64
	OctetsLent                      int64
}

// ExposedStats are of replies that clients read (RFC 5666 Section 3.8).
type ExposedStats struct {
	// OctetsExposed is the number of octets that clients read. A server counts them when RDMA_DONE comes.
	OctetsExposed uint64
	// Dones counts RDMA_DONEs sent (client) or received (server). Exposed is the number of a
	// server's replies that wait for it now. Withheld counts replies that had to wait before they
	// could be exposed, ExposedRefused those refused because of RFC5666.ExposedMemory, or the client's part of it.
	Dones, Withheld, ExposedRefused uint64
	Exposed                         int
}

// ConnStats are of connections.
type ConnStats struct {
	// Connections is the number of connections alive now. Accepted counts those that finished the start-up.
	Connections int
	Accepted    uint64
	// NotAllowed counts connections that Limits.Allow refused. TooMany counts those refused by a
	// limit on connections. SlowPeers counts those that ended because the peer kept this side
	// waiting: in the start-up, inside an FPDU, by not reading, by not answering RDMA Reads, by
	// not sending RDMA_DONE. Stuck counts those that ended because a call for which there was no memory stood before the
	// replies that handlers of the connection waited for (record-marked TCP, [Backward.Do]).
	NotAllowed, TooMany, SlowPeers, Stuck uint64
	// Silences counts the connections that a redial.Caller closed because nothing came, Retransmits the calls that it sent
	// again.
	Silences, Retransmits uint64
}

// SecurityStats are of what protects the connections and calls of a server.
type SecurityStats struct {
	// TLSConns is the number of connections within TLS now, and MTLSConns that of those whose client has shown a certificate.
	// TLSFailed counts handshakes that failed.
	TLSConns, MTLSConns int
	TLSFailed           uint64
	// GSSContexts is the number of contexts of RPCSEC_GSS now. GSSRefused counts the tokens for which there was none.
	// GSSNone, GSSIntegrity and GSSPrivacy count the calls in them, by service.
	GSSContexts                                   int
	GSSRefused, GSSNone, GSSIntegrity, GSSPrivacy uint64
}

// AdmissionStats are of what calls take before they run: credits, memory, and a turn to be pulled.
type AdmissionStats struct {
	// Credits is the latest grant (client) or the grant of new replies (server).
	Credits int
	// PoolCredits is the number of credits that the connections of a server or listener share: see
	// Config.Credits. PoolHeld is how many of them clients have now.
	PoolCredits, PoolHeld int
	// Waited counts calls that had to wait for Limits.Memory or Limits.Pulls, or for their client's
	// part of these. Waiting is the number of calls that wait now, at a client for a credit; Pulls the number
	// that are being pulled.
	Waited         uint64
	Waiting, Pulls int
	// Held is the number of octets of Limits.Memory that calls hold now. It may be more, because octets
	// that exist already are counted too, but then no further call begins.
	Held int64
}

// DuplicateStats are of calls that came again at a server, and of the replies that it keeps for them.
type DuplicateStats struct {
	// Replayed counts duplicates that a server answered with the reply to the first call. Joined
	// counts duplicates that came while the first call ran, and got its reply.
	// Unsure counts calls that got no answer, because what they are or what the first call was could not
	// be read: they may be duplicates or not.
	Replayed, Joined, Unsure uint64
	// DRCEntries is the number of replies in the duplicate request cache now, DRCOctets their
	// size, and DRCEvicted the number of replies that were evicted before their time: see
	// Duplicates.Entries.
	DRCEntries int
	DRCOctets  int64
	DRCEvicted uint64
}
