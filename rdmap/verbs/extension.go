package verbs

import "strings"

// Extensions says which operations beyond RFC 5040 a connection may use. The protocol does not
// negotiate them (RFC 7306 Section 1.1 leaves that to the upper layer). Choice: stag peers
// exchange their settings in the capability block, and the extensions that both have switched on
// are in force. With other peers our own setting is in force, so that applications can probe: a
// peer that does not know atomics answers a FetchAdd of 0 with a Terminate.
type Extensions uint8

const (
	// Ext7306: atomics and Immediate Data, RFC 7306.
	Ext7306 Extensions = 1 << iota
	// ExtSwap: the Swap of draft-ietf-storm-rdmap-ext-01, which RFC 7306 dropped. It
	// includes Ext7306.
	ExtSwap
	// ExtCommit: Flush, Verify and Atomic Write, draft-talpey-rdma-commit-01.
	ExtCommit
)

// String returns the names joined by "|", or "none".
func (x Extensions) String() string {
	var s []string
	for i, name := range [...]string{"rfc7306", "swap", "commit"} {
		if x&(1<<i) != 0 {
			s = append(s, name)
		}
	}
	if s == nil {
		return "none"
	}
	return strings.Join(s, "|")
}
