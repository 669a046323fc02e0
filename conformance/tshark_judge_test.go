package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// tsharkReportOf asks tshark, or skips the test.
func tsharkReportOf(t *testing.T, file string) *tsharkReport {
	t.Helper()
	r, err := askTshark(t.Context(), file)
	if errors.Is(err, errNoTshark) {
		t.Skip(err, "(CI has it)")
	}
	check(t, err)
	return r
}

// TestJudge: what Linux sends to Linux is well formed, and what is not is found. Without the help of askTshark,
// tshark complains about every READ by a Write chunk in the first capture and about 44 messages of the
// second.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		file            string
		good, bad, fpdu int
		malformed       []uint64 // offsets of the frames in their streams
	}{
		{file: "f-nfs3-crc-ops.pcap", good: 196, fpdu: 196},
		{file: "e-perftest.pcap", fpdu: 378},
		// 600 octets of private data, a Send of 8 octets, a ULPDU of one.
		{file: "d-mpa-bad.pcap", good: 3, bad: 1, fpdu: 56, malformed: []uint64{0, 32, 32}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			r := tsharkReportOf(t, pcaps+tt.file)
			if r.FPDUs != tt.fpdu || r.Decoded != tt.fpdu || r.GoodCRCs != tt.good || r.BadCRCs != tt.bad {
				t.Errorf("%+v", r)
			}
			var offsets []uint64
			for _, c := range r.Malformed {
				offsets = append(offsets, c.Offset)
			}
			if !slices.Equal(offsets, tt.malformed) || (r.Err() == nil) != (tt.bad == 0) {
				t.Errorf("malformed: %v", r.Err())
			}
		})
	}
}

var tsharkCapture = flag.String("tshark.capture", "", "a capture for TestCapture")

// TestCapture: tshark finds nothing wrong with the capture of -tshark.capture (conformance/linux/interop.sh).
func TestCapture(t *testing.T) {
	if *tsharkCapture == "" {
		t.Skip("no -tshark.capture")
	}
	r, err := askTshark(t.Context(), *tsharkCapture)
	if err == nil {
		t.Logf("%d FPDUs, CRCs: %d good, %d bad", r.FPDUs, r.GoodCRCs, r.BadCRCs)
		err = r.Err()
	}
	if err != nil {
		t.Error(err)
	}
}

// TestPort: a client may have any port, also one that tshark knows as something else, and one that an
// earlier client has had.
func TestPort(t *testing.T) {
	b := must(os.ReadFile(pcaps + "a-rping.pcap"))(t)
	for at := 24; at < len(b); {
		packet := b[at+16:][:binary.LittleEndian.Uint32(b[at+8:])]
		for _, port := range [][]byte{packet[34:36], packet[36:38]} { // after Ethernet and IPv4
			if binary.BigEndian.Uint16(port) > 30000 { // not the server's
				binary.BigEndian.PutUint16(port, 57000) // IRC
			}
		}
		at += 16 + len(packet)
	}
	file := filepath.Join(t.TempDir(), "irc.pcap")
	check(t, os.WriteFile(file, b, 0o600))
	if r := tsharkReportOf(t, file); r.Err() != nil || r.FPDUs == 0 {
		t.Errorf("%+v: %v", r, r.Err())
	}
}

// TestJudgeFile: files that are not captures.
func TestJudgeFile(t *testing.T) {
	if _, err := askTshark(t.Context(), "testdata/none"); err == nil {
		t.Error("judged a file that does not exist")
	}
	if _, err := askTshark(t.Context(), "judge_test.go"); err == nil {
		t.Error("judged a file that is not a capture")
	}
}

// said is what an event says, apart from the packets in which it came.
type said struct {
	conn, dir int
	kind      decode.Kind
	offset    uint64
	missing   int
	raw       string
}

// tcpEvents decodes a capture. whole: every frame has to be in one packet.
func tcpEvents(t *testing.T, b []byte, whole bool) []said {
	t.Helper()
	var all []said
	for ev, err := range decode.Events(bytes.NewReader(b), nil) {
		check(t, err)
		if whole && ev.First != ev.Frame && ev.Kind != decode.KindUndecoded {
			t.Errorf("in packets %d to %d: %v", ev.First, ev.Frame, ev)
		}
		all = append(all, said{ev.Conn.ID, int(ev.Dir), ev.Kind, ev.Offset, ev.Missing, string(ev.Raw)})
	}
	return all
}

// TestReframeHole: what is missing in the original is missing in the copy.
func TestReframeHole(t *testing.T) {
	b := must(os.ReadFile(pcaps + "a-rping.pcap"))(t)
	// A packet without its last octets: it begins 16 octets after its own header.
	for at, n := 24, 1; ; n++ {
		size := int(binary.LittleEndian.Uint32(b[at+8:]))
		if n == 34 {
			binary.LittleEndian.PutUint32(b[at+8:], uint32(size-4))
			b = slices.Delete(b, at+16+size-4, at+16+size)
			break
		}
		at += 16 + size
	}
	var out bytes.Buffer
	if _, err := reframe(&out, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	want, got := tcpEvents(t, b, false), tcpEvents(t, out.Bytes(), false)
	holes := 0
	for _, s := range want {
		holes += s.missing
	}
	// When a hole is noticed depends on what else comes: compare the streams.
	for _, list := range [][]said{want, got} {
		slices.SortStableFunc(list, func(a, b said) int { return cmp.Or(a.conn-b.conn, a.dir-b.dir) })
	}
	if holes != 4 || !slices.Equal(want, got) {
		t.Errorf("%d octets missing; %d events, want %d", holes, len(got), len(want))
	}
}

// TestReframe: the copy says what the original says, with every frame in one packet.
func TestReframe(t *testing.T) {
	files, err := filepath.Glob(pcaps + "[a-q]*.pcap") // not those of RoCE
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b := must(os.ReadFile(file))(t)
		var out bytes.Buffer
		if _, err := reframe(&out, bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
		want, got := tcpEvents(t, b, false), tcpEvents(t, out.Bytes(), true)
		if !slices.Equal(want, got) {
			t.Errorf("%s: %d events, want %d", file, len(got), len(want))
			for i := range min(len(want), len(got)) {
				if want[i] != got[i] {
					t.Fatalf("event %d: %+v, want %+v", i, got[i], want[i])
				}
			}
		}
	}
}
