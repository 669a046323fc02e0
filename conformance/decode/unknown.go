package decode

import "strings"

// Unknown is a set of things that a capture does not tell about a connection, because it begins in the
// middle, octets are missing from it, or its packets are not in order.
type Unknown uint8

const (
	// UnknownStartup: the startup frames are not in the capture. Private data, IRD and ORD, and so
	// the inline thresholds, are unknown; markers are taken to be off.
	UnknownStartup Unknown = 1 << iota
	// UnknownCRC: whether CRCs are on; they are not checked.
	UnknownCRC
	// UnknownInitiator: ConnInfo.Initiator is who sent the first call seen, or else a guess.
	UnknownInitiator
	// UnknownPast: message numbers, credits, calls, STags and Read Requests of before.
	UnknownPast
	// UnknownHole: what octets missing from the middle of the capture said.
	UnknownHole
	// UnknownOrder: which of two things was said first where they come from different sides, beyond what the
	// acknowledgements tell: packets were captured in another order.
	UnknownOrder
)

// Reasons says the members in words, each without an end stop.
func (u Unknown) Reasons() []string {
	var all []string
	for i, s := range [...]string{
		"the startup: private data, IRD and ORD, inline thresholds, markers",
		"whether CRCs are on",
		"who is the initiator",
		"message numbers, credits, calls, STags and Read Requests from before the capture",
		"what octets missing from the capture said",
		"what was said first: packets were captured in another order",
	} {
		if u&(1<<i) != 0 {
			all = append(all, s)
		}
	}
	return all
}

// String joins the reasons by semicolons.
func (u Unknown) String() string { return strings.Join(u.Reasons(), "; ") }
