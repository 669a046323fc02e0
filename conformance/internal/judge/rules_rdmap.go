package judge

const commitDraft = "draft-talpey-rdma-commit-01"

// rdmapRules are the rules RDMAP-*: headers from 001, messages from 010, requests and
// their responses from 030, STags from 040, Terminates from 050.
var rdmapRules = []*Rule{
	{"RDMAP-001", "RFC 5040 Section 4.1", Must, Error, "The RDMAP version is 1.", "rdmap 1", endsStream},
	{"RDMAP-002", "RFC 5040 Section 4.1", Must, Warning, "The reserved bits of the RDMAP control octet are 0.", "rdmap 1", 0},
	{"RDMAP-003", "RFC 5040 Section 4.1, RFC 7306 Section 4", Must, Error, "The opcode is one that a document defines.", "rdmap 2", endsStream},
	{"RDMAP-004", "RFC 5040 Section 4.1, RFC 7306 Section 4", Must, Error, "RDMA Writes and Read Responses are tagged, all other messages are not.", "rdmap 2", endsStream},
	{"RDMAP-005", "RFC 5040 Section 4.1, RFC 7306 Section 4", Must, Error, "A message goes to the queue of its opcode.", "rdmap 2", endsStream},
	{"RDMAP-006", "RFC 5040 Section 4.1", Must, Warning, "The Invalidate STag is 0 in messages that invalidate nothing.", "rdmap 1", 0},
	{"RDMAP-007", "RFC 5040 Section 7.2", Must, Error, "A message with another RDMAP version, or with an opcode that is undefined or on the wrong queue, is not delivered, nor what follows it.", "rdmap 5", acceptance},
	{"RDMAP-008", commitDraft, Should, Warning, "The opcodes of the commit draft are used only on streams whose startup has agreed to them.", "rdmap 2", settlesPrivateData},

	{"RDMAP-010", "RFC 5040 Section 4.4", Must, Error, "A Read Request has 28 octets.", "rdmap 3.1", endsStream},
	{"RDMAP-011", "RFC 7306 Section 6.3", Must, Error, "Immediate Data has 8 octets.", "rdmap 3.7", endsStream},
	{"RDMAP-012", "RFC 7306 Section 4", Must, Error, "An Atomic Request has 52 octets.", "rdmap 3.2", endsStream},
	{"RDMAP-013", "RFC 7306 Section 5.2.2", Must, Error, "An Atomic Response has 12 octets.", "rdmap 3.3", endsStream},
	{"RDMAP-014", commitDraft + " Section 3.1", Must, Error, "A Flush Request has 20 octets.", "rdmap 3.4", endsStream},
	{"RDMAP-015", commitDraft + " Section 3.2", Must, Error, "A Verify Request has 16 octets and a hash or none.", "rdmap 3.5", endsStream},
	{"RDMAP-016", commitDraft + " Section 3.3", Must, Error, "An Atomic Write Request has 24 octets.", "rdmap 3.6", endsStream},
	{"RDMAP-017", commitDraft + " Section 3.1", Must, Error, "Flush and Atomic Write Responses have no payload.", "rdmap 2", endsStream},
	{"RDMAP-018", "RFC 7306 Section 5.2.1", Must, Error, "The atomic operation is one that a document defines.", "rdmap 3.2", 0},
	{"RDMAP-019", "RFC 7306 Section 5.2.1", Must, Warning, "The reserved bits before the atomic operation are 0.", "rdmap 3.2", 0},
	{"RDMAP-020", "RFC 7306 Section 5.2.1", Must, Warning, "In a FetchAdd the compare data is 0 and its mask all ones.", "rdmap 3.2", 0},
	{"RDMAP-021", commitDraft + " Section 3.1", Must, Warning, "A Flush has no flags but P and G.", "rdmap 3.4", 0},
	{"RDMAP-022", commitDraft + " Section 3.3", Must, Error, "The length of an Atomic Write is 8.", "rdmap 3.6", 0},

	{"RDMAP-030", "RFC 5040 Section 5.2, RFC 7306 Section 5", Must, Error, "A response answers a request that is outstanding.", "rdmap 5", dependent},
	{"RDMAP-031", "RFC 5040 Section 5.5, RFC 7306 Section 5.4", Must, Error, "Responses come in the order of the requests on queue 1.", "rdmap 6", dependent},
	{"RDMAP-032", "RFC 5040 Section 4.4", Must, Error, "A Read Response goes to the sink STag of its Request.", "rdmap 3.1", dependent | losing},
	{"RDMAP-033", "RFC 5040 Section 4.4", Must, Error, "A Read Response stays inside the sink buffer of its Request.", "rdmap 3.1", wrongLength | dependent | losing},
	{"RDMAP-034", "RFC 5040 Section 5.2.2", Must, Error, "A Read Response has exactly as many octets as its Request asked for.", "rdmap 3.1", wrongLength | dependent},
	{"RDMAP-035", "RFC 7306 Section 5.2.2", Must, Error, "An Atomic Response has the identifier of its Request.", "rdmap 5", dependent},
	{"RDMAP-036", "RFC 5040 Section 6.1, RFC 6581 Section 9.1", Must, Error, "No more requests of queue 1 are outstanding than the read depths agreed at startup.", "rdmap 6", dependent | settlesDepths},
	{"RDMAP-037", commitDraft + " Section 3.2", Must, Error, "A Verify with an expected hash is answered by that hash, or by a Terminate.", "rdmap 3.5", 0},

	{"RDMAP-040", "RFC 5041 Section 4.2", Must, Error, "An STag that was invalidated is not used.", "rdmap 8", dependent},
	{"RDMAP-041", "RFC 5040 Section 7.2", Must, Error, "An STag that was invalidated is not invalidated again.", "rdmap 8", dependent},
	{"RDMAP-042", "RFC 5040 Section 3.2", Must, Error, "An access by an STag that is not valid is refused, and ends the stream.", "rdmap 5", acceptance},

	{"RDMAP-050", "RFC 5040 Section 5.4", Must, Error, "After its Terminate a side sends nothing.", "rdmap 4.4", 0},
	{"RDMAP-051", "RFC 5040 Section 5.4", Must, Error, "A Terminate is one segment.", "rdmap 4.1", 0},
	{"RDMAP-052", "RFC 5040 Section 4.8, RFC 6580 Section 3.1", Must, Error, "Layer, error type and error code of a Terminate are registered.", "rdmap 4.1", 0},
	{"RDMAP-053", "RFC 5040 Section 4.8", Must, Warning, "The reserved bits of a Terminate are 0.", "rdmap 4.1", 0},
	{"RDMAP-054", "RFC 5040 Section 4.8", Must, Error, "A Terminate holds the parts that its M, D and R bits announce, and no others.", "rdmap 4.1", 0},
	{"RDMAP-055", "RFC 5040 Section 4.8, RFC 7306 Section 8.1", Should, Warning, "M, D and R are set as the kind of error demands.", "rdmap 4.3", 0},
	{"RDMAP-056", "RFC 5040 Section 4.8", Must, Error, "The DDP header in a Terminate is one that the peer has sent.", "rdmap 4.1", 0},
	{"RDMAP-057", "RFC 5040 Section 4.8", Must, Note, "The DDP Segment Length in a Terminate is the length of the segment whose header it has.", "rdmap 4.1", 0},
	{"RDMAP-058", "RFC 5040 Section 5.4", Must, Error, "A Terminate is not answered by a Terminate.", "rdmap 4.4", 0},
	{"RDMAP-059", "RFC 5040 Section 4.8", Must, Error, "The layer of a Terminate is in the high four bits of its first octet, M, D and R in those of its third, not in the low ones as Linux siw has them.", "rdmap 4.5", 0},
	{"RDMAP-060", "RFC 5040 Section 4.8", Must, Error, "A Terminate names an error that the peer may have made, as far as the trace shows.", "rdmap 5", 0},
	{"RDMAP-061", "RFC 5044 Section 8", Must, Error, "A lost connection and a bad startup frame are not reported by a Terminate.", "mpa 9", 0},
	{"RDMAP-062", "RFC 5040 Section 5.4", Must, Note, "A side does not go on sending long after the Terminate of its peer.", "rdmap 4.4", 0},
}
