package mpa_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// deframe feeds stream to a Deframer as an engine does, in pieces of the sizes that sizes returns, and
// returns the result. Whenever an FPDU is incomplete, Need and EOF have to say so.
func deframe(stream []byte, crc bool, size func() int) (ulpdus [][]byte, rest []byte, err error) {
	return deframeWith(&mpa.Deframer{CRC: crc}, stream, size)
}

func deframeWith(d *mpa.Deframer, stream []byte, size func() int) (ulpdus [][]byte, rest []byte, err error) {
	var staged []byte
	for {
		u, n, err := d.Next(staged)
		if err != nil {
			return ulpdus, staged, err
		}
		if n > 0 {
			ulpdus = append(ulpdus, bytes.Clone(u))
			staged = staged[n:]
			continue
		}
		if need := d.Need(staged); need <= len(staged) || need > mpa.MaxMarkedFPDU {
			panic(fmt.Sprintf("%d octets are needed, and there are %d", need, len(staged)))
		}
		if len(stream) == 0 {
			if graceful := d.EOF(staged) == nil; graceful != (len(staged) == 0) {
				panic(fmt.Sprintf("the end after %d octets of an FPDU is graceful: %v", len(staged), graceful))
			}
			return ulpdus, staged, nil
		}
		k := min(max(size(), 1), len(stream))
		staged = append(bytes.Clone(staged), stream[:k]...)
		stream = stream[k:]
	}
}

// ADVERSARY 13: every FPDU split at every byte.
func TestSplitEverywhere(t *testing.T) {
	for _, v := range vectors(t) {
		for cut := range len(v.fpdu) + 1 {
			d := mpa.Deframer{CRC: true}
			u, n, err := d.Next(v.fpdu[:cut])
			if err != nil {
				t.Fatalf("%s cut at %d: %v", v.name, cut, err)
			}
			if whole := cut == len(v.fpdu); whole != (n > 0) {
				t.Fatalf("%s cut at %d: n = %d", v.name, cut, n)
			}
			if cut >= mpa.HeaderLen && d.Need(v.fpdu[:cut]) != len(v.fpdu) {
				t.Fatalf("%s cut at %d: Need = %d", v.name, cut, d.Need(v.fpdu[:cut]))
			}
			if n > 0 && !bytes.Equal(u, v.ulpdu()) {
				t.Fatalf("%s: %x", v.name, u)
			}
			if got, want := errors.Is(d.EOF(v.fpdu[n:cut]), nil), cut == 0 || n > 0; got != want {
				t.Fatalf("%s: EOF at %d: graceful %v, want %v", v.name, cut, got, want)
			}
		}
	}
}

func equal(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// Each flipped bit is an error (RFC 5044 Section 8, code 2), which is final.
func TestFlippedBits(t *testing.T) {
	v := vectors(t)[3]
	for bit := range 8 * len(v.fpdu) {
		b := bytes.Clone(v.fpdu)
		b[bit/8] ^= 1 << (bit % 8)
		d := mpa.Deframer{CRC: true}
		_, n, err := d.Next(b)
		if bit < 16 && n == 0 && err == nil {
			continue // a longer length: more octets are awaited
		}
		e, ok := errors.AsType[*mpa.Error](err)
		if !ok || e.Code != mpa.CodeCRC || !e.Terminate() || n != 0 {
			t.Fatalf("bit %d: n %d, err %v", bit, n, err)
		}
		if _, _, again := d.Next(v.fpdu); !errors.Is(again, err) {
			t.Fatalf("not final: %v", again)
		}
		if _, _, ok := d.Peek(v.fpdu); ok {
			t.Fatal("Peek after an error")
		}
		if !errors.Is(d.Finish(0, v.fpdu[28:]), err) || !errors.Is(d.EOF(nil), err) {
			t.Fatal("Finish or EOF forget the error")
		}
		off := mpa.Deframer{}
		if _, n, err := off.Next(b); bit >= 16 && (n != len(b) || err != nil) {
			t.Fatalf("CRC off, bit %d: n %d, err %v", bit, n, err)
		}
	}
}

// Peek and Finish have the results of Next, wherever the header and the rest are cut.
func TestPeekFinish(t *testing.T) {
	for _, v := range vectors(t) {
		for cut := range len(v.fpdu) {
			d := mpa.Deframer{CRC: true}
			head, n, ok := d.Peek(v.fpdu[:cut])
			if ok != (cut >= mpa.HeaderLen) {
				t.Fatalf("%s cut at %d: ok %v", v.name, cut, ok)
			}
			if !ok {
				continue
			}
			if n != len(v.ulpdu()) || !bytes.Equal(head, v.ulpdu()[:min(cut-mpa.HeaderLen, n)]) {
				t.Fatalf("%s cut at %d: %x of %d", v.name, cut, head, n)
			}
			end := mpa.HeaderLen + n
			crc := mpa.UpdateCRC(mpa.UpdateCRC(0, v.fpdu[:mpa.HeaderLen]), v.fpdu[mpa.HeaderLen:end])
			if err := d.Finish(crc, v.fpdu[end:end+mpa.TrailerLen(n)]); err != nil {
				t.Fatalf("%s: %v", v.name, err)
			}
			if err := d.Finish(crc^1, v.fpdu[end:]); err == nil {
				t.Fatalf("%s: bad CRC accepted", v.name)
			}
			if err := new(mpa.Deframer).Finish(crc^1, v.fpdu[end:]); err != nil {
				t.Fatalf("%s: the CRC was checked although CRCs are off", v.name)
			}
		}
	}
}
