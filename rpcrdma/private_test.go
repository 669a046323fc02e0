package rpcrdma_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rpcrdma"
)

func TestPrivateDataWire(t *testing.T) {
	for _, c := range []struct {
		p    rpcrdma.PrivateData
		want string
	}{
		{rpcrdma.PrivateData{true, 4096, 4096}, "f6ab0e18 01 01 03 03"}, // a Linux client's
		{rpcrdma.PrivateData{false, 4096, 4096}, "f6ab0e18 01 00 03 03"},
		{rpcrdma.PrivateData{false, 1024, 262144}, "f6ab0e18 01 00 00 ff"},
		{rpcrdma.PrivateData{false, 5119, 2047}, "f6ab0e18 01 00 03 00"}, // rounded down
		{rpcrdma.PrivateData{false, 0, -1}, "f6ab0e18 01 00 00 00"},
		{rpcrdma.PrivateData{false, 1 << 30, 262145}, "f6ab0e18 01 00 ff ff"},
		{rpcrdma.PrivateData{false, 300_000, 263168}, "f6ab0e18 01 00 ff ff"},
	} {
		if got, want := c.p.Append(nil), unhex(t, c.want); !bytes.Equal(got, want) {
			t.Errorf("%+v = %x, want %x", c.p, got, want)
		}
	}
}

func TestParsePrivateData(t *testing.T) {
	absent := rpcrdma.PrivateData{false, 1024, 1024}
	linux := rpcrdma.PrivateData{true, 4096, 8192}
	for _, c := range []struct {
		name, hex string
		want      rpcrdma.PrivateData
		ok        bool
	}{
		{"nothing", "", absent, false},
		{"the block", "f6ab0e18 01010307", linux, true},
		{"unknown flags", "f6ab0e18 01ff0307", linux, true},
		{"octets behind", "f6ab0e18 01010307 01020304", linux, true},
		{"at offset 1", "00 f6ab0e18 01010307", linux, true},
		{"at offset 7", "f6ab0e f6ab0e18 f6ab0e18 01010307", absent, false}, // the first identifier is not version 1
		{"behind a partial identifier", "f6ab0e f6ab0e18 01010307", linux, true},
		{"version 2", "f6ab0e18 02010307", absent, false},
		{"7 octets", "f6ab0e18 010103", absent, false},
		{"identifier alone at the end", "00000000 f6ab0e18", absent, false},
		{"something else", "deadbeef 01010307", absent, false},
	} {
		got, ok := rpcrdma.ParsePrivateData(unhex(t, c.hex))
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
	whole := linux.Append(nil)
	for n := range whole {
		if _, ok := rpcrdma.ParsePrivateData(whole[:n]); ok {
			t.Errorf("found in the first %d octets", n)
		}
	}
	for code := range 256 {
		for _, p := range []rpcrdma.PrivateData{{true, 1024 * (code + 1), 1024}, {false, 1024, 1024 * (code + 1)}} {
			if got, ok := rpcrdma.ParsePrivateData(p.Append([]byte("lead-in"))); got != p || !ok {
				t.Errorf("%+v comes back as %+v, %v", p, got, ok)
			}
		}
	}
}

// TestInline: both sides come to the same thresholds, none above what its
// receiver posted.
func TestInline(t *testing.T) {
	for _, c := range []struct {
		client, server rpcrdma.PrivateData
		call, reply    int
	}{
		{rpcrdma.PrivateData{true, 4096, 4096}, rpcrdma.PrivateData{false, 4096, 4096}, 4096, 4096},
		{rpcrdma.PrivateData{false, 65536, 8192}, rpcrdma.PrivateData{false, 16384, 4096}, 4096, 8192},
		{rpcrdma.PrivateData{false, 4096, 4096}, rpcrdma.PrivateData{false, 1024, 1024}, 1024, 1024}, // the server said nothing
		{rpcrdma.PrivateData{false, 5000, 3000}, rpcrdma.PrivateData{false, 9000, 9000}, 4096, 2048},
		{rpcrdma.PrivateData{}, rpcrdma.PrivateData{}, 1024, 1024},
	} {
		t.Run(fmt.Sprint(c.client, c.server), func(t *testing.T) {
			onWire := func(p rpcrdma.PrivateData) rpcrdma.PrivateData {
				q, _ := rpcrdma.ParsePrivateData(p.Append(nil))
				return q
			}
			send, recv := c.client.Inline(onWire(c.server))
			if send != c.call || recv != c.reply {
				t.Errorf("client: %d, %d; want %d, %d", send, recv, c.call, c.reply)
			}
			send, recv = c.server.Inline(onWire(c.client))
			if send != c.reply || recv != c.call {
				t.Errorf("server: %d, %d; want %d, %d", send, recv, c.reply, c.call)
			}
			if send > max(c.client.RecvSize, 1024) || recv > max(c.server.RecvSize, 1024) {
				t.Error("a threshold above the receive of the other side")
			}
		})
	}
}

func TestMayInvalidate(t *testing.T) {
	for _, a := range []bool{false, true} {
		for _, b := range []bool{false, true} {
			p, q := rpcrdma.PrivateData{RemoteInvalidate: a}, rpcrdma.PrivateData{RemoteInvalidate: b}
			if got := p.MayInvalidate(q); got != (a && b) {
				t.Errorf("%v and %v: %v", a, b, got)
			}
		}
	}
}
