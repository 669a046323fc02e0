package coverage

import "strings"

// Sources of the ordering rules. The commit draft has no table yet; the rules that follow from its text and
// from RFC 7306 take its place.
const (
	base      = "RFC 5040 Appendix B"
	atomics   = "RFC 7306 Section 7"
	commit    = "draft-talpey-rdma-commit-01"
	completes = "RFC 5040 Section 5.5, RFC 7306 Section 5.4"
)

// rdmapRows are the ordering and completion rules. The names of operations: Imm is
// Immediate Data, At an atomic operation, F Flush, V Verify, AW Atomic Write.
func rdmapRows() []Row {
	rows := make([]Row, 0, 72)
	pairs := func(group, source string, rules ...[2]string) {
		for _, r := range rules {
			first, later, _ := strings.Cut(r[0], "-")
			rows = append(rows, Row{ID: group + " " + r[0], First: first, Later: later, Requires: r[1], Source: source})
		}
	}
	pairs("7.1", base, baseOrder...)
	pairs("7.2", atomics, atomicOrder...)
	pairs("7.3", commit, commitOrder...)
	for _, r := range completionRules {
		rows = append(rows, Row{ID: "7.4 " + r[0], Requires: r[1], Source: completes})
	}
	for _, r := range postconditions {
		rows = append(rows, Row{ID: "7.5 " + r[0], Requires: r[1], Source: r[2]})
	}
	return rows
}

// postconditions are what completed operations mean, and who is told what if they do not complete.
var postconditions = [][3]string{
	{"Read", "each octet of the sink written by the Response, once and in order", "RFC 5040 Section 5.5, RFC 5041 Section 5.2.1"},
	{"Verify", "the answer is the hash that was compared", "draft-talpey-rdma-commit-01 Section 3.2"},
	{"medium", "a Verify hashes what the medium holds", "draft-talpey-rdma-commit-01 Section 3.2"},
	{"liar", "calls, replies, records and heads hold only octets that were sent for them", "RFC 5040 Section 5.5, RFC 5041 Section 5.2.1"},
	{"Flush", "STag, rights and bounds valid, of no octets too", "draft-talpey-rdma-commit-01 Section 3.1"},
	{"end", "nothing completes while what was posted before it is being written, also at the end of the connection", "RFC 5040 Section 5.5"},
	{"first", "an error of DDP or RDMAP in the first FPDU has its Terminate", "RFC 5044 Section 7.1.2, RFC 5040 Section 7"},
}

var baseOrder = [][2]string{
	{"Send-Send", "completed in order; placed in any"},
	{"Send-Write", "none: the Write may be placed first"},
	{"Send-Read", "Read Response not generated before the Send has completed"},
	{"Write-Send", "a delivered Send means that the Write has been placed"},
	{"Write-Write", "none; an ordered stream leaves the later octets"},
	{"Write-Read", "the Read sees the Write; its data is not placed before the Write is"},
	{"Read-Send", "none: the Send may be placed before the Response is generated"},
	{"Read-Write", "none: the Write may be placed before the Response is generated"},
	{"Read-Read", "second Response generated after the first"},
}

var atomicOrder = [][2]string{
	{"Imm-Send", "completed in order"},
	{"Imm-Write", "none: the Write may be placed first"},
	{"Imm-Read", "Read Response after the Immediate has completed"},
	{"Imm-At", "Atomic Response after the Immediate has completed"},
	{"Imm-Imm", "completed in order"},
	{"Send-At", "Atomic Response after the Send has completed"},
	{"Send-Imm", "completed in order"},
	{"Write-At", "Atomic Response not placed before the Write is"},
	{"Write-Imm", "Immediate completed after the Write was placed and delivered"},
	{"Read-At", "Atomic Response generated after the Read Response, which the operation does not change"},
	{"Read-Imm", "none: the Immediate may be placed first"},
	{"At-Send", "none: the Send may be placed first"},
	{"At-Write", "none: the Write may be placed first"},
	{"At-Read", "Read Response generated after the Atomic Response"},
	{"At-At", "executed in order; second not processed before the first Response is generated"},
	{"At-Imm", "none: the Immediate may be placed first"},
}

var commitOrder = [][2]string{
	{"Write-F", "the Write is placed before the Flush runs, which covers it"},
	{"Write-V", "the Write is placed before the Verify runs"},
	{"Write-AW", "the Write is placed before the Atomic Write"},
	{"Send-F", "Flush Response after the Send has completed"},
	{"Send-V", "Verify Response after the Send has completed"},
	{"Send-AW", "Atomic Write placed after the Send; Response after it has completed"},
	{"Imm-F", "Flush Response after the Immediate has completed"},
	{"Imm-V", "Verify Response after the Immediate has completed"},
	{"Imm-AW", "Atomic Write Response after the Immediate has completed"},
	{"Read-F", "Flush Response after the Read Response"},
	{"Read-V", "Verify Response after the Read Response"},
	{"Read-AW", "Atomic Write Response after the Read Response, whose octets it does not change"},
	{"At-F", "Flush not processed before the Atomic Response is generated"},
	{"At-V", "Verify not processed before the Atomic Response is generated"},
	{"At-AW", "Atomic Write not processed before the Atomic Response is generated"},
	{"F-Send", "none: the Send may complete while the Flush runs"},
	{"F-Imm", "none: the Immediate may complete while the Flush runs"},
	{"F-Write", "none: the Write may be placed while the Flush runs, covered by it or not"},
	{"F-Read", "Read Response after the Flush Response"},
	{"F-At", "atomic operation after the Flush"},
	{"F-F", "second not processed before the first Response is generated"},
	{"F-V", "Verify after the Flush"},
	{"F-AW", "Atomic Write placed only after the Flush has succeeded; never if it failed"},
	{"V-Send", "none: the Send may complete while the Verify runs"},
	{"V-Imm", "none: the Immediate may complete while the Verify runs"},
	{"V-Write", "none: the Write may be placed first; over the same octets the result is undefined"},
	{"V-Read", "Read Response after the Verify Response"},
	{"V-At", "Atomic Response after the Verify Response"},
	{"V-F", "Flush after the Verify"},
	{"V-V", "second after the first"},
	{"V-AW", "Atomic Write placed only after the Verify has succeeded; never if the hashes differ"},
	{"AW-Send", "none: the Send may be placed first"},
	{"AW-Imm", "none: the Immediate may be placed first"},
	{"AW-Write", "none: the Write may be placed first"},
	{"AW-Read", "the Read sees the Atomic Write; Responses in order"},
	{"AW-At", "the operation sees the Atomic Write; Responses in order"},
	{"AW-F", "Atomic Write placed before the Flush runs, which covers it"},
	{"AW-V", "Atomic Write placed before the Verify runs"},
	{"AW-AW", "placed in order; second after the first"},
}

var completionRules = [][2]string{
	{"submission", "messages leave, and work requests complete, in the order of submission"},
	{"streams", "no order across streams, nor between the two directions of one"},
	{"local", "Send and Write complete when the layer below has them; that says nothing about the peer"},
	{"response", "Read, atomics, Flush, Verify and Atomic Write complete when their response is delivered"},
	{"start", "requests start only after DDP has delivered them and all before, those of length zero too"},
	{"contents", "a buffer is defined when its Send, a Send after its Writes, or its Read Response is delivered"},
	{"overtake", "a Send may complete at the peer before the Response to an earlier Read is produced"},
	{"touched", "what a buffer holds is undefined while somebody else stores to it; nothing else suffers"},
}
