package mpa_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// oracleStrip reads a direction with markers one octet at a time, and removes the markers by their
// position alone. rest holds the octets of an incomplete last FPDU; code is 0 if nothing is wrong.
func oracleStrip(stream []byte, crc bool) (ulpdus [][]byte, rest []byte, code mpa.Code) {
	for begin := 0; ; {
		var plain []byte       // octets of the FPDU at begin, without markers
		ptrs := map[int]int{}  // position of a marker: FPDUPTR
		hdr, end := -1, 0      // position of ULPDU_Length, and of the end of the CRC
		size, total := 0, 1<<8 // of the ULPDU, of the FPDU without markers
		for pos := begin; pos < len(stream); pos++ {
			if pos%512 < 4 {
				ptrs[pos-pos%4] = ptrs[pos-pos%4]<<8&0xffff | int(stream[pos])
				continue
			}
			if hdr < 0 {
				hdr = pos
			}
			plain = append(plain, stream[pos])
			if len(plain) == 2 {
				size = int(plain[0])<<8 | int(plain[1])
				total = (2+size+3)/4*4 + 4
			}
			if len(plain) == total {
				end = pos + 1
				break
			}
		}
		if end == 0 {
			return ulpdus, stream[begin:], 0
		}
		if crc && binary.LittleEndian.Uint32(plain[total-4:]) != mpa.UpdateCRC(0, stream[begin:end-4]) {
			return ulpdus, nil, mpa.CodeCRC
		}
		for pos, ptr := range ptrs {
			if ptr&^3 != max(0, pos-hdr) {
				return ulpdus, nil, mpa.CodeMarker
			}
		}
		ulpdus = append(ulpdus, plain[2:2+size])
		begin = end
	}
}

// checkStrip compares the Deframer with the oracle. size cuts the stream.
func checkStrip(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, stream []byte, crc bool, size func() int,
) {
	t.Helper()
	want, rest, code := oracleStrip(stream, crc)
	got, left, err := deframeWith(marked(crc), stream, size)
	var gotCode mpa.Code
	if e, ok := errors.AsType[*mpa.Error](err); ok {
		gotCode = e.Code
	}
	if !equal(got, want) || gotCode != code || code == 0 && !bytes.Equal(left, rest) {
		t.Fatalf("%d ULPDUs, %d left, %v; want %d, %d, code %v", len(got), len(left), err, len(want), len(rest), code)
	}
}

// Any cut of any stream, valid or damaged, has the result of the oracle.
func TestStripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		crc := rapid.Bool().Draw(t, "crc")
		stream := oracleStream(0, drawULPDUs(t), crc)
		if len(stream) > 0 {
			for range rapid.IntRange(0, 2).Draw(t, "flips") {
				stream[rapid.IntRange(0, len(stream)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			}
			stream = stream[:rapid.IntRange(0, len(stream)).Draw(t, "cut")]
		}
		size := rapid.SampledFrom([]int{1, 5, 511, 1 << 20}).Draw(t, "pieces up to")
		checkStrip(t, stream, crc, func() int { return rapid.IntRange(1, size).Draw(t, "piece") })
	})
}

// An FPDU without a marker inside is not moved; one with markers is moved in place.
func TestStripInPlace(t *testing.T) {
	for _, n := range []int{20, 502, 506, 1442} {
		b := new(mpa.Inserter).AppendFPDU(nil, ramp(0, 1, n), true)
		keep := bytes.Clone(b)
		d := marked(true)
		u, used, err := d.Next(b)
		if err != nil || used != len(b) || &u[0] != &b[6] || cap(u) != n || !bytes.Equal(u, ramp(0, 1, n)) {
			t.Fatalf("%d octets: %d, %v, cap %d", n, used, err, cap(u))
		}
		if moved := !bytes.Equal(b, keep); moved != (n > 506) {
			t.Errorf("%d octets: moved %v", n, moved)
		}
	}
}

// A bad marker is code 3 if the CRC is right, and final. If the CRC is wrong, that is the error (RFC 5044
// Section 8).
func TestMarkerDisagrees(t *testing.T) {
	for _, crc := range []bool{true, false} {
		for at, bits := range map[int]string{0: "00000004", 512: "00000100", 1024: "00008000"} {
			fpdu := oracleStream(0, [][]byte{ramp(0, 1, 1100)}, crc)
			for i, v := range unhex(t, bits) {
				fpdu[at+i] ^= v
			}
			d := marked(crc)
			want := mpa.CodeMarker
			if crc {
				want = mpa.CodeCRC
			}
			if e := codeOf(d.Next(bytes.Clone(fpdu))); e == nil || e.Code != want || !e.Terminate() {
				t.Fatalf("crc %v, marker at %d: %v, want %v", crc, at, e, want)
			}
			resum(fpdu)
			d = marked(crc)
			e := codeOf(d.Next(bytes.Clone(fpdu)))
			if e == nil || e.Code != mpa.CodeMarker || !e.Terminate() || int(e.Want) != max(0, at-4) {
				t.Fatalf("crc %v, marker at %d: %v", crc, at, e)
			}
			if again := codeOf(d.Next(fpdu)); again != e {
				t.Fatalf("not final: %v", again)
			}
		}
	}
}

func resum(fpdu []byte) {
	n := len(fpdu) - mpa.CRCLen
	mpa.AppendCRC(fpdu[:n], mpa.UpdateCRC(0, fpdu[:n]))
}

func codeOf(_ []byte, _ int, err error) *mpa.Error {
	e, _ := errors.AsType[*mpa.Error](err)
	return e
}

// What was returned last may be unread, once; FuzzMarkedRoundTrip does it between FPDUs.
func TestUnread(t *testing.T) {
	want := ramp(0, 1, 700)
	b := oracleStream(0, [][]byte{want}, true)
	d := marked(true)
	d.Unread() // nothing was read
	for range 2 {
		u, n, err := d.Next(b)
		if err != nil || n != len(b) || !bytes.Equal(u, want) {
			t.Fatalf("%d, %v", n, err)
		}
		d.Unread()
		d.Unread()
		if d.Need(b) != n {
			t.Fatalf("Need = %d, want %d", d.Need(b), n)
		}
		b = bytes.Clone(b) // the octets may have moved in the meantime
	}
	if _, _, err := d.Next(b); err != nil {
		t.Fatal(err)
	}
	if _, n, err := d.Next(b[:6]); n != 0 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	d.Unread() // the last call returned none
}
