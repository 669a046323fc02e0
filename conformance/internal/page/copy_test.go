package page

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

// blocks makes a pcapng file: a section of known length, two interfaces of different link types and clocks,
// packets of all three kinds, one with options, and an unknown block.
func blocks(order binary.ByteOrder) []byte {
	c := &copier{order: order}
	u32 := func(b []byte, vs ...uint32) []byte {
		for _, v := range vs {
			b = append(b, 0, 0, 0, 0)
			order.PutUint32(b[len(b)-4:], v)
		}
		return b
	}
	var file []byte
	block := func(kind uint32, body []byte) {
		n := uint32(len(body) + frameLen)
		file = u32(append(u32(file, kind, n), body...), n)
	}
	section := u32(nil, byteOrder)
	section = append(section, 0, 0, 0, 0)
	order.PutUint16(section[4:], 1)
	block(blockSection, u32(section, 777, 0))
	ether := u32(nil, 1, 0) // link type 1 in the first half, whatever the order
	order.PutUint16(ether, 1)
	order.PutUint16(ether[2:], 0)
	block(1, ether)
	raw := u32(nil, 0, 0)
	order.PutUint16(raw, 101)
	block(1, append(c.appendOption(raw, 9, "\x09"), 0, 0, 0, 0))
	enhanced := func(ifc uint32, data string, options []byte) {
		b := append(u32(nil, ifc, 7, 1234, uint32(len(data)), uint32(len(data))), data...)
		block(blockEnhanced, append(append(b, make([]byte, -len(data)&3)...), options...))
	}
	enhanced(0, "first packet", nil)
	enhanced(1, "second", append(c.appendOption(nil, optComment, "was there"), 0, 0, 0, 0))
	block(0x7fff, []byte("whatever"))
	block(blockSimple, append(u32(nil, 6), "simple\x00\x00"...))
	enhanced(1, "last", nil)
	return file
}

func TestNoCommentsNoChange(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.BigEndian, binary.LittleEndian} {
		in := blocks(order)
		var out bytes.Buffer
		if err := Copy(&out, bytes.NewReader(in), on(nil)); err != nil {
			t.Fatal(err)
		}
		// but for the length of the section
		want := bytes.Clone(in)
		order.PutUint64(want[16:], ^uint64(0))
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%v:\n%x\nwant\n%x", order, out.Bytes(), want)
		}
	}
}

// packets describes the packets of a capture, a line each, without their comments.
func packets(t *testing.T, capture []byte) []string {
	t.Helper()
	var all []string
	for pkt, err := range decode.Packets(bytes.NewReader(capture)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Join([]string{pkt.Time.UTC().String(), pkt.Link.String(), string(pkt.Data)}, " "))
	}
	return all
}

func TestPacketsStay(t *testing.T) {
	b, err := os.ReadFile(pcap)
	if err != nil {
		t.Fatal(err)
	}
	all := on(map[int][]string{1: {"one"}, 2: {"two", "three"}, 4: {strings.Repeat("x", 1<<20)}, 5: {"bad \xff UTF-8"}})
	for name, in := range map[string][]byte{"pcap": b, "pcapng": blocks(binary.LittleEndian), "the other order": blocks(binary.BigEndian)} {
		var out bytes.Buffer
		if err := Copy(&out, bytes.NewReader(in), all); err != nil {
			t.Fatal(err)
		}
		got, want := packets(t, out.Bytes()), packets(t, in)
		if len(got) != len(want) || len(got) < 4 {
			t.Fatalf("%s: %d packets, want %d", name, len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
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
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string][]byte{"pcap": b, "pcapng": blocks(binary.LittleEndian)} {
		out := filepath.Join(t.TempDir(), name)
		f, err := os.Create(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := Copy(f, bytes.NewReader(in), on(map[int][]string{2: {"two", "three"}, 3: {"simple"}})); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		said, err := exec.CommandContext(t.Context(), "tshark", "-r", out, "-T", "fields", "-e", "frame.number", "-e", "frame.comment").Output()
		if err != nil {
			t.Fatal(err)
		}
		was := map[string]string{"pcap": "", "pcapng": ",was there"}[name]
		if want := "2\ttwo,three" + was + "\n3\tsimple\n4\t\n"; !strings.Contains(string(said), want) {
			t.Errorf("%s: tshark reads\n%s, want in it\n%s", name, said, want)
		}
	}
}

func TestDamaged(t *testing.T) {
	in := blocks(binary.LittleEndian)
	every := func(int) []string { return []string{"here"} }
	for n := 4; n < len(in); n++ {
		var out bytes.Buffer
		if err := Copy(&out, bytes.NewReader(in[:n]), every); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	for _, n := range []uint32{0, 8, 13} { // a block is 12 octets at least, of whole words
		b := binary.LittleEndian.AppendUint32(bytes.Clone(in), blockEnhanced)
		b = append(binary.LittleEndian.AppendUint32(b, n), make([]byte, 32)...)
		err := Copy(new(bytes.Buffer), bytes.NewReader(b), every)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("a block of %d octets after packet 4", n)) {
			t.Errorf("a block of %d octets: %v", n, err)
		}
	}
	if err := Copy(new(bytes.Buffer), strings.NewReader("no capture"), every); err == nil {
		t.Error("no error for what is no capture")
	}
}

// FuzzCopy: no input does more than return an error.
func FuzzCopy(f *testing.F) {
	b, err := os.ReadFile(pcap)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(blocks(binary.LittleEndian))
	f.Add(blocks(binary.BigEndian))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = Copy(new(bytes.Buffer), bytes.NewReader(b), func(n int) []string { return make([]string, n%3) })
	})
}

// TestClaimedLength: a packet that says that it has 3.5 GiB is an error, not memory.
func TestClaimedLength(t *testing.T) {
	var b []byte
	for _, w := range []uint32{0xa1b2c3d4, 4<<16 | 2, 0, 0, ^uint32(0), 1, 1, 1, 0xe0000000, 0xe0000000} {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	read := &counting{r: bytes.NewReader(b)}
	err := Copy(io.Discard, read, func(int) []string { return nil })
	if err == nil || read.zeros > 1<<20 {
		t.Errorf("%d octets read, %v", read.zeros, err)
	}
}

// counting goes on with zeros, up to 128 MiB, and counts them.
type counting struct {
	r     *bytes.Reader
	zeros int
}

func (c *counting) Read(b []byte) (int, error) {
	if c.r.Len() > 0 {
		return c.r.Read(b)
	}
	if c.zeros > 128<<20 {
		return 0, io.EOF
	}
	clear(b)
	c.zeros += len(b)
	return len(b), nil
}
