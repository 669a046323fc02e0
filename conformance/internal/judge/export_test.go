package judge

import "flag"

// What the tests need of the inside: the tables of rules, whose twins they are, some limits, and the
// files that tests make.

// Update makes the files that tests compare with what is found.
var Update = flag.Bool("update", false, "make the counts in the .expect files what is found; reasons stay, new lines lack theirs")

var (
	ReceiverRule = receiverRule
	CommitRules  = commitRules
	NFSRules     = nfsRules
	RPCRules     = rpcRules
	RPCRDMARules = rpcrdmaRules
)

const (
	MaxHeaders = maxHeaders
	MaxUnknown = maxUnknown
)

// SetTooLong says from how many octets a message is too long: a test cannot send 2^32.
func (j *Judge) SetTooLong(n uint64) { j.tooLong = n }

// QuotesInFile returns how many quotations there are.
func QuotesInFile() int { return len(quotes) }

// SamplesInFile returns what samples.txt holds.
func SamplesInFile() string { return samples }
