package decode

import "strings"

// Unknown is a set of things that a capture does not show of a connection, because it begins in the middle,
// octets are missing from it, or its packets are out of order.
type Unknown uint16

const (
	// UnknownStartup: the startup frames are not in the capture. Private data, IRD and ORD, and so
	// the inline thresholds, are unknown; markers are taken to be off.
	UnknownStartup Unknown = 1 << iota
	// UnknownCRC: whether CRCs are on; they are not checked.
	UnknownCRC
	// UnknownInitiator: ConnInfo.Initiator is who sent the first call seen, or else a guess.
	UnknownInitiator
	// UnknownPast: message numbers, credits, calls, STags and Read Requests from before the capture.
	UnknownPast
	// UnknownHole: what octets missing from the middle of the capture said.
	UnknownHole
	// UnknownOrder: which of two things from different sides was sent first, beyond what the
	// acknowledgements show: packets were captured out of order.
	UnknownOrder
	// UnknownTruncated: what the snap length of the capture cut off.
	UnknownTruncated
	// UnknownSide: everything that one side sent, although its peer acknowledged octets of it.
	UnknownSide
	// UnknownRest: what followed after so many other connections that this one was forgotten.
	UnknownRest
)

// Reasons returns the members in words, each without a full stop.
func (u Unknown) Reasons() []string {
	var all []string
	for i, s := range [...]string{
		"the startup: private data, IRD and ORD, inline thresholds, markers",
		"whether CRCs are on",
		"who is the initiator",
		"message numbers, credits, calls, STags and Read Requests from before the capture",
		"the contents of octets missing from the capture",
		"what was sent first: packets were captured out of order",
		"what the snap length cut off: the packets are truncated",
		"one side: no octet that it sent is in the capture",
		"what followed: it was idle longest, and forgotten because of too many others",
	} {
		if u&(1<<i) != 0 {
			all = append(all, s)
		}
	}
	return all
}

// String joins the reasons by semicolons.
func (u Unknown) String() string { return strings.Join(u.Reasons(), "; ") }
