package judge

// mpaRules are the rules MPA-*.
var mpaRules = []*Rule{
	{"MPA-030", "RFC 5044 Section 4.4", Must, Error, "The CRC of an FPDU is right when either startup frame asked for CRCs.", "mpa 6"},
	{"MPA-031", "RFC 5044 Section 4.1", Must, Warning, "The pad of an FPDU is zero.", "mpa 5"},
	{"MPA-032", "RFC 5044 Section 4.1", Must, Error, "A ULPDU has at most 64,768 octets.", "mpa 5"},
}
