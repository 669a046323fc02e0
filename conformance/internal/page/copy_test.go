package page

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

const pcap = "../../testdata/pcaps/d-reject.pcap"

// on returns comments for some packets.
func on(comments map[int][]string) Comments {
	return func(frame int) []string { return comments[frame] }
}

// packets describes the packets of a capture, a line each, without their comments, up to where it is damaged.
func packets(capture []byte) (all []string) {
	for pkt, err := range decode.Packets(bytes.NewReader(capture)) {
		if err != nil {
			break
		}
		all = append(all, strings.Join([]string{pkt.Time.UTC().String(), pkt.Link.String(), string(pkt.Data)}, " "))
	}
	return all
}

// mixed is a pcapng file: Ethernet, and by a Simple Packet Block, which has no time.
func mixed() string {
	return "\x0a\x0d\x0d\x0a\x00\x00\x00\x1c\x1a\x2b\x3c\x4d\x00\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x1c" +
		"\x00\x00\x00\x01\x00\x00\x00\x14\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x14" + // Ethernet
		"\x00\x00\x00\x01\x00\x00\x00\x14\x00\x65\x00\x00\x00\x00\x00\x00\x00\x00\x00\x14" + // bare IP
		"\x00\x00\x00\x06\x00\x00\x00\x24\x00\x00\x00\x01\x00\x00\x00\x07\x00\x00\x04\xd2\x00\x00\x00\x04\x00\x00\x00\x04enha\x00\x00\x00\x24" +
		"\x00\x00\x00\x03\x00\x00\x00\x18\x00\x00\x00\x06simple\x00\x00\x00\x00\x00\x18"
}

// TestPacketsStay: whatever decode reads is copied, with what its packets say; of a damaged file what was before.
func TestPacketsStay(t *testing.T) {
	b, err := os.ReadFile(pcap)
	noErr(t, err)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(b)
	_ = z.Close()
	all := on(map[int][]string{1: {"one"}, 2: {"two", "three"}, 4: {strings.Repeat("x", 1<<20)}, 5: {"bad \xff UTF-8"}, 6: make([]string, 1000)})
	for name, in := range map[string]string{
		"pcap": string(b), "pcapng": mixed(), "gzip": zipped.String(), "no packet": string(b[:24]),
		"cut pcap": string(b[:len(b)-7]), "cut pcapng": mixed()[:len(mixed())-2], "no capture": "no capture",
	} {
		var out bytes.Buffer
		damaged := strings.HasPrefix(name, "cut") || name == "no capture"
		if err := Copy(&out, strings.NewReader(in), all); (err != nil) != damaged {
			t.Fatalf("%s: %v", name, err)
		}
		got, want := packets(out.Bytes()), packets([]byte(in))
		if len(got) != len(want) {
			t.Fatalf("%s: %d packets, want %d", name, len(got), len(want))
		}
		for i := range got {
			if got[i] != strings.Replace(want[i], "0001-01-01", "1970-01-01", 1) {
				t.Errorf("%s: packet %d is %q, want %q", name, i+1, got[i], want[i])
			}
		}
	}
}

// TestWireshark reads the comments back with tshark.
func TestWireshark(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("no tshark here (apt-get install tshark)")
	}
	b, err := os.ReadFile(pcap)
	noErr(t, err)
	var out bytes.Buffer
	noErr(t, Copy(&out, bytes.NewReader(b), on(map[int][]string{2: {"two", "three"}, 3: {"simple"}})))
	name := filepath.Join(t.TempDir(), "out.pcapng")
	noErr(t, os.WriteFile(name, out.Bytes(), 0o600))
	said, err := exec.CommandContext(t.Context(), "tshark", "-r", name, "-T", "fields", "-e", "frame.number", "-e", "frame.comment").Output()
	if want := "2\ttwo,three\n3\tsimple\n4\t\n"; err != nil || !strings.Contains(string(said), want) {
		t.Errorf("%v: tshark reads\n%s, want in it\n%s", err, said, want)
	}
}
