package mpa

import "encoding/binary"

// The keys at the start of a startup frame (RFC 5044 Section 7.1.1). A listener that
// shares its port with another protocol compares the first octets with RequestKey.
const (
	RequestKey = "MPA ID Req Frame"
	ReplyKey   = "MPA ID Rep Frame"
)

// Sizes of a startup frame in octets.
const (
	StartupHeaderLen = 20
	MaxPrivateData   = 512 // including the enhanced word
)

const (
	flagM       = 0x80
	flagC       = 0x40
	flagR       = 0x20
	flagS       = 0x10
	maskReserve = 0x0f

	offFlags = 16
	offRev   = 17
	offLen   = 18
)

// Frame holds what Request and Reply have in common (RFC 5044 Section 7.1.1, RFC
// 6581 Section 6):
//
//	off size
//	0   16   Key
//	16  1    M 0x80, C 0x40, R 0x20, S 0x10, reserved 0x0f
//	17  1    Rev
//	18  2    PD_Length: octets that follow, 0..512
//	20  4    enhanced word, only if S=1 at Rev 2
//	..  ..   private data of the ULP
//
// Malformed frames are answered by closing the connection, never by a Terminate.
type Frame struct {
	Rev      uint8
	Markers  bool // M: the sender wants markers in what it receives
	CRC      bool // C: the sender wants CRCs
	Rejected bool // R: Reply only; in a Request it is not checked
	Enhanced bool // S: Word is present. At Rev 1 the bit is reserved and ignored
	// Reserved holds the low four flag bits as received. Append sends them as they
	// are, so leave them 0. siw uses 0x08 privately.
	Reserved uint8
	Word     Enhanced
	// PrivateData is that of the ULP, without the enhanced word: 0..512 octets, or
	// 0..508 if Enhanced. After parsing it aliases the input.
	PrivateData []byte
}

// Request is the initiator's startup frame.
type Request struct{ Frame }

// Reply is the responder's startup frame.
type Reply struct{ Frame }

// Append appends the frame to b. The private data is borrowed. The error is a
// *FormatError wrapping ErrPrivateData if the private data is too long.
func (r *Request) Append(b []byte) ([]byte, error) { return r.append(b, RequestKey, "request") }

// Append appends the frame to b. The private data is borrowed. The error is a
// *FormatError wrapping ErrPrivateData if the private data is too long.
func (r *Reply) Append(b []byte) ([]byte, error) { return r.append(b, ReplyKey, "reply") }

func (f *Frame) append(b []byte, key, name string) ([]byte, error) {
	if len(f.PrivateData) > f.maxPrivate() {
		return b, &FormatError{name, "PD_Length", offLen, ErrPrivateData}
	}
	n := len(f.PrivateData)
	if f.hasWord() {
		n += EnhancedLen
	}
	b = append(b, key...)
	b = append(b, f.flags(), f.Rev)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	if f.hasWord() {
		b = f.Word.Append(b)
	}
	return append(b, f.PrivateData...), nil
}

func (f *Frame) hasWord() bool { return f.Enhanced && f.Rev >= 2 }

func (f *Frame) maxPrivate() int {
	if f.hasWord() {
		return MaxPrivateData - EnhancedLen
	}
	return MaxPrivateData
}

func (f *Frame) flags() byte {
	v := f.Reserved & maskReserve
	for _, x := range [...]struct {
		on  bool
		bit byte
	}{{f.Markers, flagM}, {f.CRC, flagC}, {f.Rejected, flagR}, {f.hasWord(), flagS}} {
		if x.on {
			v |= x.bit
		}
	}
	return v
}

// ParseRequest decodes the Request at the start of b, of revision 1 or 2. n is its length; n == 0
// with a nil error means that b ends inside the frame. A wrong key is reported as soon as one octet
// differs. The error is a *FormatError; if the frame is complete all the same, n and the fields read
// are returned with it. The private data of r aliases b.
func ParseRequest(b []byte) (r Request, n int, err error) {
	n, err = r.parse(b, RequestKey, ReplyKey, "request")
	return r, n, err
}

// ParseReply decodes the Reply at the start of b, like ParseRequest. A frame with R=1 is accepted
// whatever its revision is and however little of the enhanced word is there, since a rejecting peer
// does not always fill them in.
func ParseReply(b []byte) (r Reply, n int, err error) {
	n, err = r.parse(b, ReplyKey, RequestKey, "reply")
	return r, n, err
}

func (f *Frame) parse(b []byte, key, other, name string) (int, error) {
	if err := checkKey(b, key, other, name); err != nil {
		return 0, err
	}
	if len(b) < StartupHeaderLen {
		return 0, nil
	}
	flags, pd := b[offFlags], int(binary.BigEndian.Uint16(b[offLen:]))
	f.Rev, f.Reserved = b[offRev], flags&maskReserve
	f.Markers, f.CRC, f.Rejected = flags&flagM != 0, flags&flagC != 0, flags&flagR != 0
	// Choice: S is a reserved bit below revision 2, and has no known meaning above.
	f.Enhanced = flags&flagS != 0 && f.Rev == 2
	if pd > MaxPrivateData {
		return 0, &FormatError{name, "PD_Length", offLen, ErrPrivateData}
	}
	n := StartupHeaderLen + pd
	if len(b) < n {
		return 0, nil
	}
	f.PrivateData = b[StartupHeaderLen:n:n]
	lenient := name == "reply" && f.Rejected
	if f.Rev != 1 && f.Rev != 2 && !lenient {
		return n, &FormatError{name, "Rev", offRev, ErrRevision}
	}
	return n, f.parseWord(name, lenient)
}

// parseWord takes the enhanced word off the private data, which MUST begin with it if S=1 (RFC 6581
// Section 6).
func (f *Frame) parseWord(name string, lenient bool) error {
	if !f.Enhanced {
		return nil
	}
	w, ok := parseEnhanced(f.PrivateData)
	if !ok {
		f.Enhanced = false
		if lenient {
			return nil
		}
		return &FormatError{name, "enhanced word", StartupHeaderLen, ErrEnhanced}
	}
	f.Word, f.PrivateData = w, f.PrivateData[EnhancedLen:]
	return nil
}

// checkKey compares as much of the key as b holds, so that a peer that speaks another protocol is
// recognised at once and not after a timeout.
func checkKey(b []byte, key, other, name string) error {
	n := min(len(b), len(key))
	for i := range n {
		if b[i] == key[i] {
			continue
		}
		if b[i] == other[i] {
			return &FormatError{name, "Key", i, ErrRole}
		}
		return &FormatError{name, "Key", i, ErrKey}
	}
	return nil
}
