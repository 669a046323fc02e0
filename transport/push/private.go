package push

// privateMagic begins the MPA private data of a commit connection.
const privateMagic = "stagpush"

// privateLen is the length of the private data in octets.
const privateLen = len(privateMagic) + keyLen

// privateData returns the private data for the MPA Request of a commit connection, so that the
// server knows the log before it answers.
//
//	off 0, 8 octets: "stagpush"
//	off 8, 16: the token
func privateData(token key) []byte {
	return append([]byte(privateMagic), token[:]...)
}

// parsePrivateData reads the token of a Request. Nothing may follow it.
func parsePrivateData(b []byte) (token key, ok bool) {
	if len(b) != privateLen || string(b[:len(privateMagic)]) != privateMagic {
		return token, false
	}
	return key(b[len(privateMagic):]), true
}
