package rdmaptest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Castagnoli returns the CRC32C of p as a region table returns it.
func Castagnoli(p []byte) []byte {
	h := region.CRC32C.New()
	h.Write(p)
	return h.Sum(nil)
}

// Pattern returns n octets that differ from their neighbours.
func Pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// Unhex returns the octets that s spells.
func Unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Done is a Completer for tests.
type Done struct {
	N   int
	Err error
}

// Complete implements verbs.Completer.
func (d *Done) Complete(err error) { d.N++; d.Err = err }

// ErrTest is an error that only a test makes.
var ErrTest = errors.New("test")

// Word is memory for one 64-bit value.
func Word(v uint64) (mem []byte, p *uint64) {
	p = &[]uint64{v, 0}[0]
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), 16), p
}

// The FPDUs of test-vectors.md Section 4. STags 11223344 and aabbccdd cannot be
// registered on purpose (they are drawn at random), so what a region table has to
// know is tested with the STag replaced and the CRC recomputed: see the tests.
const (
	GoldWrite    = "001ec140112233440000000100000000000102030405060708090a0b0c0d0e0f02febf03"
	GoldReadReq  = "002e414100000000000000010000000100000000aabbccdd000000000000200000001000112233440000000000001000" + "9ddf71c2"
	GoldReadResp = "001ec142aabbccdd0000000000002000000102030405060708090a0b0c0d0e0fa44706e3"
	GoldSend     = "001741430000000000000000000000010000000048454c4c4f000000ccc19375"
	GoldSendZero = "0012414300000000000000000000000200000000accbdb8c"
	GoldSendInv  = "001741441122334400000000000000030000000048454c4c4f000000abfbdb6f"
	GoldSendSE   = "001741450000000000000000000000040000000048454c4c4f00000073a1b362"
	GoldSendSEI  = "001741461122334400000000000000050000000048454c4c4f000000cffd5e91"
	GoldTermSTag = "00264147000000000000000200000001000000001100c000001ec140112233440000000100000000769806af"
	GoldTermRead = "00464147000000000000000200000001000000000101e000002e414100000000000000010000000100000000aabbccdd" +
		"000000000000200000001000112233440000000000001000e2f4d4e2"
	GoldTermBuf   = "002a4147000000000000000200000001000000001202c00007e24143000000000000000000000009000000004ff55aec"
	GoldTermOp    = "002a4147000000000000000200000001000000000206c000001a414c0000000000000001000000040000000047a662f4"
	GoldTermLocal = "001641470000000000000002000000010000000000000000f9a26f1d"
	GoldTermCRC   = "0016414700000000000000020000000100000000200200007fe42585"
	GoldTermRTR   = "0016414700000000000000020000000100000000200700001bd2babe"
	GoldImm       = "001a41480000000000000000000000060000000001020304050607083d6b1697"
	GoldImmSE     = "001a4149000000000000000000000007000000000102030405060708c598f089"
	GoldAWResp    = "0012415100000000000000030000000700000000e2c6f91e"
	GoldStalePad  = "001741430000000000000000000000010000000048454c4c4f010203a890c7e4"
)

// FPDU recomputes length, pad and CRC around a ULPDU.
func FPDU(ulpdu []byte) []byte { return mpa.AppendFPDU(nil, ulpdu, true) }

// ULPDU returns the ULPDU of one FPDU.
func ULPDU(t testing.TB, fpdu []byte) []byte {
	t.Helper()
	d := mpa.Deframer{CRC: true}
	u, n, err := d.Next(bytes.Clone(fpdu))
	if err != nil || n != len(fpdu) {
		t.Fatalf("bad vector: %d of %d octets, %v", n, len(fpdu), err)
	}
	return bytes.Clone(u)
}

// WantTerminate builds the FPDU of a Terminate for a segment u (rdmap.md Section 4.1), without using the
// engine's code.
func WantTerminate(word uint32, u []byte, read bool) []byte {
	b := []byte{0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, word)
	if u != nil {
		b = binary.BigEndian.AppendUint16(b, uint16(len(u)))
		n := 18
		if u[0]&0x80 != 0 {
			n = 14
		}
		b = append(b, u[:n]...)
		if read {
			b = append(b, u[n:n+28]...)
		}
	}
	return FPDU(b)
}

// AllRights are those of peers that RFC 5040 knows.
const AllRights = region.RemoteRead | region.RemoteWrite | region.RemoteInvalidate

const (
	NoParts  = 0      // neither
	WithHdr  = 0xc000 // M, D
	WithRead = 0xe000 // M, D, R
)

// Patch returns the ULPDU of a vector with octets replaced.
func Patch(t testing.TB, vector string, at int, with ...byte) []byte {
	u := ULPDU(t, Unhex(t, vector))
	copy(u[at:], with)
	return u
}

// ReadRequest returns the Read Request of vector 4.2 with another source and size.
func ReadRequest(t testing.TB, stag region.STag, to uint64, size uint32) []byte {
	u := ULPDU(t, Unhex(t, GoldReadReq))
	binary.BigEndian.PutUint32(u[18+12:], size)
	binary.BigEndian.PutUint32(u[18+16:], uint32(stag))
	binary.BigEndian.PutUint64(u[18+20:], to)
	return u
}

// ReadResponse returns the Read Response of vector 4.3 with another sink.
func ReadResponse(t testing.TB, stag region.STag, to uint64) []byte {
	u := ULPDU(t, Unhex(t, GoldReadResp))
	binary.BigEndian.PutUint32(u[2:], uint32(stag))
	binary.BigEndian.PutUint64(u[6:], to)
	return u
}

// Poisoning is true in builds that overwrite memory when it is no longer lent, which are usually those with
// the race detector.
var Poisoning = func() bool {
	b := []byte{0}
	buf.Poison(b)
	return b[0] != 0
}()

// NoBuffer is the code for a Send without a receive (RFC 5041 Section 7.1).
var NoBuffer = verbs.TermCode{Layer: 1, EType: 2, Code: 2}

// SiwTerminates are the first octets of Terminates as siw of Linux 6.1 sends them, with their intended meaning (rdmap.md
// Section 12).
var SiwTerminates = []struct {
	Octets string
	Want   verbs.TermCode // the swapped reading
}{
	{"02020000", verbs.TermCode{Layer: 2, EType: 0, Code: 2}},
	{"02060000", verbs.TermCode{Layer: 2, EType: 0, Code: 6}},
	{"21060000", verbs.TermCode{Layer: 1, EType: 2, Code: 6}},
	{"20050000", verbs.TermCode{Layer: 0, EType: 2, Code: 5}},
	{"20060000", verbs.TermCode{Layer: 0, EType: 2, Code: 6}},
	{"21010300" + "0000" + "414300000000000000070000000100000000", verbs.TermCode{Layer: 1, EType: 2, Code: 1}},
	{"21020300" + "0000" + "414300000000000000000000000100000000", verbs.TermCode{Layer: 1, EType: 2, Code: 2}},
	{"11000300" + "0010" + "c140112233440000000000000000", verbs.TermCode{Layer: 1, EType: 1, Code: 0}},
	{"10000700" + "0000" + "414100000000000000010000000100000000" +
		"aabbccdd000000000000200000001000112233440000000000001000", verbs.TermCode{Layer: 0, EType: 1, Code: 0}},
}
