package judge

// ddpRules are the rules DDP-*.
var ddpRules = []*Rule{
	{"DDP-001", "RFC 5041 Section 4.4", Must, Error, "A ULPDU holds a whole DDP header.", "ddp 5", endsStream},
	{"DDP-002", "RFC 5041 Section 4.1", Must, Error, "The DDP version is 1.", "ddp 1.1", endsStream},
	{"DDP-003", "RFC 5041 Section 4.1", Must, Warning, "The reserved bits of the DDP control octet are 0.", "ddp 1.1", 0},
	{"DDP-004", "RFC 5040 Section 3.1, RFC 7306 Section 10.2", Must, Error, "The queue number is one of 0 to 3.", "ddp 3", endsStream},
	{"DDP-005", "RFC 5041 Section 4.3", Must, Error, "MSNs of a queue begin with 1 and go up by 1, from 0xffffffff to 0.", "ddp 3", losing},
	{"DDP-006", "RFC 5041 Section 4.3", Must, Error, "All segments of an untagged message have its MSN.", "ddp 3", losing},
	{"DDP-007", "RFC 5041 Section 5.2", Should, Error, "MO of a segment is the number of octets of the message in the segments before it.", "ddp 2", wrongLength | losing},
	{"DDP-008", "RFC 5041 Section 4.3", Must, Error, "The octets reserved for the ULP, the STag and the queue are the same in all segments of a message.", "ddp 1.3", losing},
	{"DDP-009", "RFC 5041 Section 5.2", Should, Error, "TO of a segment continues the segment before it.", "ddp 2", wrongLength | losing},
	{"DDP-010", "RFC 5041 Section 7.1", Must, Error, "TO plus the length of the payload does not exceed 2^64.", "ddp 5", losing},
	{"DDP-011", "RFC 5041 Section 4.1", Must, Error, "A message is sent to its L segment before the next of its kind begins.", "ddp 2", losing},
	{"DDP-012", "RFC 5041 Section 5.2", Must, Warning, "A stream that ends gracefully ends after the L segment of its last message.", "ddp 7", 0},
	{"DDP-013", "RFC 5041 Section 5.2", Must, Error, "A message has fewer than 2^32 octets.", "ddp 2", 0},
	{"DDP-014", "RFC 5041 Section 6.2.2", Must, Error, "A segment of another DDP version is not delivered, nor what follows it.", "ddp 5", acceptance},
	{"DDP-015", "RFC 5041 Section 7.1", Must, Error, "A segment for a queue that does not exist is not delivered, nor what follows it.", "ddp 5", acceptance},
	{"DDP-016", "RFC 5041 Section 7.1", Must, Error, "A message with a wrong MSN is not delivered, nor what follows it.", "ddp 5", acceptance},
	{"DDP-017", "RFC 5041 Section 6.2.2", Must, Error, "A segment without a whole header, or behind octets of its message that were not sent, is not delivered, nor what follows it.", "ddp 5", acceptance},
}
