package judge_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
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
	if grown := (after.Sys - before.Sys) >> 20; err != nil || grown > 768 {
		t.Errorf("%d MiB, %v", grown, err)
	}
	if len(rep.Connections) != 1<<15 || rep.Beyond != 150_000-1<<15 || rep.Verdict() == judge.Clean || len(rep.Violations) > 1<<15 {
		t.Errorf("%d connections and %d more, %v, %d violations", len(rep.Connections), rep.Beyond, rep.Verdict(), len(rep.Violations))
	}
	if why := rep.Reasons()[0]; !strings.HasPrefix(why, "117232 connections began after 32768 others") {
		t.Error(why)
	}
}

// TestIdleLongest: of too many connections the one that was idle longest is forgotten, and the report says so; the
// others are judged as if it had not been there.
func TestIdleLongest(t *testing.T) {
	const file = "../../testdata/pcaps/f-nfs3-p2p-ops.pcap"
	client := uint16(0)
	as := func(b []byte, n uint16) []byte { // the client's port plus n
		b = bytes.Clone(b)
		ports := b[34:38]
		if client == 0 {
			client = binary.BigEndian.Uint16(ports)
		}
		if binary.BigEndian.Uint16(ports) != client {
			ports = ports[2:]
		}
		binary.BigEndian.PutUint16(ports, client+n)
		return b
	}
	n := 0
	var rest [][]byte
	three := dressed(t, file, func(b []byte) [][]byte {
		n++
		switch rest = append(rest, as(b, 2)); {
		case n < 30:
			return [][]byte{as(b, 0), as(b, 1)}
		case n == 60: // the third begins, in a burst
			return append([][]byte{as(b, 0)}, rest...)
		case n > 60:
			return [][]byte{as(b, 0), as(b, 2)}
		}
		return [][]byte{as(b, 0)}
	})
	r, err := judge.File(bytes.NewReader(three), &judge.Options{Decode: &decode.Options{MaxConns: 2}})
	if err != nil || len(r.Connections) != 3 {
		t.Fatal(r, err)
	}
	for i, c := range r.Connections {
		if whole := c.Info.Unknown == 0 && c.Messages.Unjudged() == 0; whole != (i != 1) {
			t.Errorf("connection %d: %+v, %v", c.Info.ID, c.Messages, c.Info.Unknown)
		}
	}
	if why := strings.Join(r.Reasons(), "\n"); !strings.Contains(why, "connection 2: unknown: what followed: it was idle longest") {
		t.Error(why)
	}
}
