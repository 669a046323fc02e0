package coverage

// What changed from RFC 5666 to RFC 8166, and how both kinds of peers are served.
const changes = "RFC 5666, RFC 8166"

func rpcrdmaRows() []Row {
	rows := make([]Row, 0, len(profileRules))
	for _, r := range profileRules {
		rows = append(rows, Row{ID: "14 " + r[0], Requires: r[1], Source: changes})
	}
	return rows
}

var profileRules = [][2]string{
	{"extras", "reply read lists, RDMA_DONE, RDMA_MSGP and the configuration protocol: sent and accepted by profile"},
	{"inline", "1024 octets until RFC 8797 says more; larger receive buffers are posted anyway"},
	{"eligible", "only eligible items are reduced or accepted; with RFC 5666 any of a program without a binding"},
	{"write-roundup", "Write chunk lengths never count the roundup; both are accepted"},
	{"position", "Positions are multiples of 4, sent and required"},
	{"credits-0", "never granted; counts as 1"},
	{"error-version", "an RDMA_ERROR echoes the version of its request; any is accepted"},
	{"error-sender", "only a Responder sends RDMA_ERROR"},
	{"error-union", "an RDMA_ERROR of an unknown code is discarded"},
	{"bad-header", "a bad header is answered with ERR_CHUNK; a GARBAGE_ARGS for one is understood"},
	{"short", "messages that are too short are dropped, with a minimum for each type"},
	{"gss", "with integrity or privacy nothing is reduced: Long messages"},
	{"unused-write", "unused Write chunks come back with lengths 0; those that do not are unused too"},
	{"reply-chunk", "the Reply chunk is copied back; a reply without it is accepted"},
	{"backward", "calls to a Requester and replies to a Responder are dropped unless the backward direction is on"},
}
