package judge

// mpaRules are the rules MPA-*: the startup from 001, FPDUs from 030, markers from 040.
var mpaRules = []*Rule{
	{"MPA-001", "RFC 5044 Section 7.1.2", Must, Error, "Of the two startup frames one is a Request and one a Reply.", "mpa 3", endsStream},
	{"MPA-002", "RFC 5044 Section 7.1.2", Must, Error, "The responder sends nothing before it has a whole valid Request.", "mpa 3", endsStream | dependent},
	{"MPA-003", "RFC 5044 Section 7.1.1", Must, Error, "A side whose peer speaks MPA begins with the key of a startup frame.", "mpa 2", endsStream},
	{"MPA-004", "RFC 5044 Section 7.1.1", Must, Error, "PD_Length is at most 512.", "mpa 2", endsStream | settles},
	{"MPA-005", "RFC 5044 Section 7.1.1, RFC 6581 Section 6", Must, Error, "The revision is 1 or 2.", "mpa 2", 0},
	{"MPA-006", "RFC 6581 Section 6", Must, Error, "With S=1 at revision 2 the private data begins with the four octets of the enhanced word.", "mpa 3", settles},
	{"MPA-007", "RFC 5044 Section 7.1.1", Must, Warning, "R is 0 in a Request.", "mpa 2", 0},
	{"MPA-008", "RFC 5044 Section 7.1.1", Must, Warning, "The reserved flags of a startup frame are 0.", "mpa 2", 0},
	{"MPA-009", "RFC 5044 Section 7.1.1, RFC 6581 Section 6", Must, Warning, "S, reserved at revision 1, is 0 there.", "mpa 2", 0},
	{"MPA-010", "RFC 5044 Section 7.1.2", Must, Error, "The initiator sends nothing between its Request and the Reply.", "mpa 3", dependent},
	{"MPA-011", "RFC 5044 Section 7.1.2", Must, Error, "The responder sends no FPDU before it has received one.", "mpa 3", dependent},
	{"MPA-012", "RFC 6581 Section 10", Must, Error, "A Reply has the S bit of its Request.", "mpa 4.3", 0},
	{"MPA-013", "RFC 6581 Section 10", Must, Error, "The revision of an accepting Reply is not above that of the Request.", "mpa 4.3", 0},
	{"MPA-014", "RFC 6581 Section 9.1", Must, Error, "IRD of an accepting Reply is at least the ORD of the Request.", "mpa 4.1", settlesDepths},
	{"MPA-015", "RFC 6581 Section 9.1", Must, Error, "ORD of an accepting Reply is at most the IRD of the Request.", "mpa 4.1", settlesDepths},
	{"MPA-016", "RFC 6581 Section 9.1", Must, Error, "A depth that the Request does not negotiate (0x3fff) is not negotiated by the Reply.", "mpa 4.1", settlesDepths},
	{"MPA-017", "RFC 6581 Section 9.2", Must, Warning, "B, C and D are 0 where A is 0.", "mpa 4.2", settlesPeerToPeer},
	{"MPA-018", "RFC 6581 Section 9.2", Must, Error, "An accepting Reply has the A bit of its Request.", "mpa 4.2", settlesPeerToPeer},
	{"MPA-019", "RFC 6581 Section 9.2", Must, Error, "A frame with A=1 offers at least one of B, C and D.", "mpa 4.2", settlesPeerToPeer},
	{"MPA-020", "RFC 6581 Section 9.2", Must, Error, "After an accepting Reply with A=1 the initiator's first FPDU is an RTR that the Reply offers.", "mpa 4.2", dependent | settlesPeerToPeer},
	{"MPA-021", "RFC 6581 Section 10", Must, Warning, "A Request that uses nothing of RFC 6581 is not enhanced.", "mpa 4.3", 0},
	{"MPA-022", "RFC 5044 Section 7.1.2", Must, Error, "After a Reply with R=1 neither side sends FPDUs.", "mpa 3", 0},

	{"MPA-030", "RFC 5044 Section 4.4", Must, Error, "The CRC of an FPDU is right when either startup frame asked for CRCs.", "mpa 6", endsStream},
	{"MPA-031", "RFC 5044 Section 4.1", Must, Warning, "The pad of an FPDU is zero.", "mpa 5", 0},
	{"MPA-032", "RFC 5044 Section 3", Must, Error, "A ULPDU has at most 64,768 octets.", "mpa 5", endsStream},
	{"MPA-033", "RFC 5041 Section 5.2", Must, Error, "A stream is ended between two frames, not inside one.", "mpa 9", endsStream},
	{"MPA-034", "RFC 5044 Section 8", Must, Error, "Nothing is delivered of an FPDU with a wrong CRC, nor of what follows it.", "mpa 9", acceptance},

	{"MPA-040", "RFC 5044 Section 4.3", Must, Error, "FPDUPTR of a marker points at the ULPDU_Length of its FPDU.", "mpa 7", endsStream},
	{"MPA-041", "RFC 5044 Section 4.2", Must, Warning, "The reserved half of a marker is 0.", "mpa 7", 0},
	{"MPA-042", "RFC 5044 Section 4.3", Must, Error, "A marker between two FPDUs goes out with the second, never alone at the end.", "mpa 7", 0},
}
