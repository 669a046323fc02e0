package decode_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// block returns a block of a pcapng file.
func block(kind uint32, body ...byte) []byte {
	n := uint32(len(body) + 12)
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = append(binary.LittleEndian.AppendUint32(b, n), body...)
	return binary.LittleEndian.AppendUint32(b, n)
}

// words returns numbers as octets.
func words(all ...uint32) (b []byte) {
	for _, w := range all {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

var (
	section  = block(0x0a0d0d0a, words(0x1a2b3c4d, 1, ^uint32(0), ^uint32(0))...)
	ethernet = block(1, words(1, 0)...)
)

// packet is an Enhanced Packet Block.
func packet(captured, wire uint32, data ...byte) []byte {
	return block(6, append(words(0, 0, 1, captured, wire), data...)...)
}

// TestLyingLengths: a length that lies is an error of the file. It hides no packet, and it takes no memory.
func TestLyingLengths(t *testing.T) {
	good := packet(4, 4, 1, 2, 3, 4)
	pcap := words(0xa1b2c3d4, 4<<16|2, 0, 0, ^uint32(0), 1)
	tests := map[string]struct {
		file []byte
		want int // packets before the error
	}{
		"a pcap packet of 3.5 GiB":       {append(pcap, words(1, 1, 0xe0000000, 0xe0000000)...), 0},
		"a pcapng packet of 3.5 GiB":     {slice(section, ethernet, good, words(6, 0xe0000020, 0, 0, 1, 0xe0000000, 0xe0000000)), 1},
		"more captured than there is":    {slice(section, ethernet, good, packet(60, 60, 1, 2, 3, 4), good), 1},
		"more captured than on the wire": {slice(section, ethernet, good, packet(4, 3, 1, 2, 3, 4), good), 1},
		"a block of no octets":           {slice(section, ethernet, good, words(99, 0), good), 1},
		"two lengths":                    {slice(section, ethernet, good, good[:len(good)-4], words(4), good), 1},
		"an option hides packets":        {slice(section, block(1, append(words(1, 0), words(2|200<<16)...)...), good, good, good, good, good), 0},
		"options of the section":         {slice(block(0x0a0d0d0a, words(0x1a2b3c4d, 1, 0, 0, 2|200<<16)...), ethernet, good, good, good, good, good), 5},
		"no interface":                   {slice(section, good), 0},
		"interfaces without end":         {slice(section, bytes.Repeat(ethernet, 1<<17)), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var last error
			got := 0
			peak := grown(func() {
				for _, err := range decode.Packets(io.MultiReader(bytes.NewReader(tt.file), io.LimitReader(zeros{}, 1<<28))) {
					if last = err; err == nil {
						got++
					}
				}
			})
			if last == nil || errors.Is(last, io.ErrUnexpectedEOF) || got != tt.want || peak > 64<<20 {
				t.Errorf("%d packets, error %v, %d octets; want %d packets and an error", got, last, peak, tt.want)
			}
		})
	}
}

// TestBlocksNotRead: what is not about packets takes no memory: names of hosts, secrets, names of interfaces.
func TestBlocksNotRead(t *testing.T) {
	name := slice(words(1, 0), words(2|60000<<16), []byte(strings.Repeat("n", 60000)))
	for what, b := range map[string][]byte{
		"hosts":      block(4, slice(bytes.Repeat(slice(words(1|12<<16), []byte("\x0a\x00\x00\x01host.ab\x00")), 4000), words(0))...),
		"secrets":    block(10, slice(words(0x544c534b, 60000), make([]byte, 60000))...),
		"interfaces": block(1, name...),
	} {
		t.Run(what, func(t *testing.T) {
			got := 0
			peak := grown(func() {
				r := []io.Reader{bytes.NewReader(slice(section, ethernet))}
				for range 2000 {
					r = append(r, bytes.NewReader(b))
				}
				for _, err := range decode.Packets(io.MultiReader(append(r, bytes.NewReader(packet(4, 4, 1, 2, 3, 4)))...)) {
					if err != nil {
						t.Fatal(err)
					}
					runtime.GC()
					got++
				}
			})
			if got != 1 || peak > 16<<20 {
				t.Errorf("%d packets, %d octets", got, peak)
			}
		})
	}
}

func slice(all ...[]byte) []byte { return bytes.Join(all, nil) }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// grown returns how many octets of memory the process has taken from the system for f.
func grown(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Sys - before.Sys
}
