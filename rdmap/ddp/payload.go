package ddp

// MaxPayload returns how many payload octets a segment may carry if a ULPDU has at most mulpdu
// octets. Choice: the result is a multiple of 4, so that every segment but the last leaves TO and MO
// aligned; RFC 5041 Section 5.2 would allow up to three octets more. It is at least 4.
func MaxPayload(tagged bool, mulpdu int) int {
	n := mulpdu - UntaggedLen
	if tagged {
		n = mulpdu - TaggedLen
	}
	return max(n&^3, 4)
}
