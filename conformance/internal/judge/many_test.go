package judge_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// manyConns is a capture of n connections: a SYN of each, and an MPA Request if there is one.
type manyConns struct {
	n, i    int
	payload string
	buf     []byte
}

func (m *manyConns) Read(b []byte) (int, error) {
	if len(m.buf) == 0 {
		if m.i == m.n {
			return 0, io.EOF
		}
		m.buf = append(m.packet(0, 2, ""), m.packet(1, 24, m.payload)...)
		m.i++
	}
	n := copy(b, m.buf)
	m.buf = m.buf[n:]
	return n, nil
}

func (m *manyConns) packet(seq uint32, flags byte, payload string) []byte {
	p := make([]byte, 16+14+20+20, 16+14+20+20+len(payload))
	binary.LittleEndian.PutUint32(p[8:], uint32(cap(p)-16))
	binary.LittleEndian.PutUint32(p[12:], uint32(cap(p)-16))
	p[16+12] = 8
	ip := p[30:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(40+len(payload)))
	binary.BigEndian.PutUint32(ip[12:], 0x0b000000+uint32(m.i))
	binary.BigEndian.PutUint32(ip[16:], 0x0a000001)
	tcp := ip[20:]
	binary.BigEndian.PutUint16(tcp, 1000)
	binary.BigEndian.PutUint16(tcp[2:], 20049)
	binary.BigEndian.PutUint32(tcp[4:], seq)
	tcp[12], tcp[13] = 0x50, flags
	return append(p, payload...)
}

// TestManyConnections: connections that have ended take no memory but their reports, of which there are so many, and a
// capture with more is not clean.
func TestManyConnections(t *testing.T) {
	var head []byte
	for _, w := range []uint32{0xa1b2c3d4, 4<<16 | 2, 0, 0, 1 << 18, 1} {
		head = binary.LittleEndian.AppendUint32(head, w)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rep, err := judge.File(io.MultiReader(bytes.NewReader(head), &manyConns{n: 150_000, payload: "MPA ID Req Frame\x40\x01\x00\x00" + strings.Repeat("\x00", 1300)}), nil)
	runtime.ReadMemStats(&after)
	if grown := (after.Sys - before.Sys) >> 20; err != nil || grown > 512 {
		t.Errorf("%d MiB, %v", grown, err)
	}
	if len(rep.Connections) != 1<<15 || rep.Beyond != 150_000-1<<15 || rep.Verdict() == judge.Clean || len(rep.Violations) > 1<<15 {
		t.Errorf("%d connections and %d more, %v, %d violations", len(rep.Connections), rep.Beyond, rep.Verdict(), len(rep.Violations))
	}
	if why := rep.Reasons()[0]; !strings.HasPrefix(why, "117232 connections began after 32768 others") {
		t.Error(why)
	}
}
