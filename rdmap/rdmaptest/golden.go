package rdmaptest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
)

// Castagnoli returns the CRC32C of p as a region table returns it.
func Castagnoli(p []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)))
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

// Gold has the FPDUs of test-vectors.md Section 4, in hexadecimal. STags 11223344 and aabbccdd cannot be
// registered on purpose (they are drawn at random), so what a region table has to
// know is tested with the STag replaced and the CRC recomputed: see the tests.
var Gold = struct {
	Write, ReadReq, ReadResp, Send, SendZero, SendInv, SendSE, SendSEI, Imm, ImmSE, AWResp, StalePad string
	TermSTag, TermRead, TermBuf, TermOp, TermLocal, TermCRC, TermRTR                                 string
}{
	Write:    "001ec140112233440000000100000000000102030405060708090a0b0c0d0e0f02febf03",
	ReadReq:  "002e414100000000000000010000000100000000aabbccdd000000000000200000001000112233440000000000001000" + "9ddf71c2",
	ReadResp: "001ec142aabbccdd0000000000002000000102030405060708090a0b0c0d0e0fa44706e3",
	Send:     "001741430000000000000000000000010000000048454c4c4f000000ccc19375",
	SendZero: "0012414300000000000000000000000200000000accbdb8c",
	SendInv:  "001741441122334400000000000000030000000048454c4c4f000000abfbdb6f",
	SendSE:   "001741450000000000000000000000040000000048454c4c4f00000073a1b362",
	SendSEI:  "001741461122334400000000000000050000000048454c4c4f000000cffd5e91",
	TermSTag: "00264147000000000000000200000001000000001100c000001ec140112233440000000100000000769806af",
	TermRead: "00464147000000000000000200000001000000000101e000002e414100000000000000010000000100000000aabbccdd" +
		"000000000000200000001000112233440000000000001000e2f4d4e2",
	TermBuf:   "002a4147000000000000000200000001000000001202c00007e24143000000000000000000000009000000004ff55aec",
	TermOp:    "002a4147000000000000000200000001000000000206c000001a414c0000000000000001000000040000000047a662f4",
	TermLocal: "001641470000000000000002000000010000000000000000f9a26f1d",
	TermCRC:   "0016414700000000000000020000000100000000200200007fe42585",
	TermRTR:   "0016414700000000000000020000000100000000200700001bd2babe",
	Imm:       "001a41480000000000000000000000060000000001020304050607083d6b1697",
	ImmSE:     "001a4149000000000000000000000007000000000102030405060708c598f089",
	AWResp:    "0012415100000000000000030000000700000000e2c6f91e",
	StalePad:  "001741430000000000000000000000010000000048454c4c4f010203a890c7e4",
}

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

// WithHdr says in the word of a Terminate that it has length and header of the segment (M, D).
const WithHdr = 0xc000

// Patch returns the ULPDU of a vector with octets replaced.
func Patch(t testing.TB, vector string, at int, with ...byte) []byte {
	u := ULPDU(t, Unhex(t, vector))
	copy(u[at:], with)
	return u
}

// ReadRequest returns the Read Request of vector 4.2 with another source and size.
func ReadRequest(t testing.TB, stag region.STag, to uint64, size uint32) []byte {
	u := ULPDU(t, Unhex(t, Gold.ReadReq))
	binary.BigEndian.PutUint32(u[18+12:], size)
	binary.BigEndian.PutUint32(u[18+16:], uint32(stag))
	binary.BigEndian.PutUint64(u[18+20:], to)
	return u
}

// ReadResponse returns the Read Response of vector 4.3 with another sink.
func ReadResponse(t testing.TB, stag region.STag, to uint64) []byte {
	u := ULPDU(t, Unhex(t, Gold.ReadResp))
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
