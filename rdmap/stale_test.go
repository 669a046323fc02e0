package rdmap_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestNothingStale: the engine's memory for output and input, which all connections share, is full of the octets of one
// connection. None of them is in what another one writes: payloads, pads, trailers, markers, whatever comes between,
// of Sends, Writes, Read Responses, atomics and hashes of every length modulo 4 (RFC 5042 Section 6.3.2).
func TestNothingStale(t *testing.T) {
	for _, markers := range []bool{false, true} {
		for _, crc := range []rdmap.CRCMode{rdmap.CRCOn, rdmap.CRCOff} {
			t.Run(fmt.Sprintf("markers=%v,crc=%v", markers, crc), func(t *testing.T) {
				talk(t, 0xcc, markers, crc) // the other one
				for who, out := range talk(t, 0x11, markers, crc) {
					if at := bytes.Index(out, []byte{0xcc, 0xcc, 0xcc, 0xcc}); at >= 0 {
						t.Errorf("side %d: octets of another connection at %d of %d", who, at, len(out))
					}
				}
			})
		}
	}
}

// talk sends messages full of c both ways, and returns what either side has written.
func talk(t *testing.T, c byte, markers bool, crc rdmap.CRCMode) (out [2][]byte) {
	t.Helper()
	a, b := rdmaptest.Pipe()
	ra, rb := &rdmaptest.Record{Conn: a}, &rdmaptest.Record{Conn: b}
	cfg := &rdmap.Config{Startup: rdmap.Startup{Markers: markers, CRC: crc, Extensions: verbs.ExtCommit | verbs.Ext7306}, Receives: rdmap.Receives{Size: 1 << 20, Count: 200}}
	x, y := rdmap.Client(ra, cfg), rdmap.Server(rb, cfg)
	started := make(chan error, 1)
	go func() { started <- y.Handshake(t.Context()) }()
	noErr(t, errors.Join(x.Handshake(t.Context()), <-started))
	reg, err := y.Register(bytes.Repeat([]byte{c}, 300_000), region.RemoteRead|region.RemoteWrite|region.Atomic|region.Verify)
	noErr(t, err)
	go y.Serve()
	lengths := []int{0, 1, 2, 3, 4, 5, 7, 30, 31, 32, 33, 500, 508, 1400, 4001, 9002, 60_003, 64 << 10, 200_001, 290_002}
	for _, n := range lengths {
		p := bytes.Repeat([]byte{c}, n)
		err := errors.Join(x.Write(t.Context(), p, reg.STag(), 0), x.Read(t.Context(), make([]byte, n), reg.STag(), 0), x.Send(t.Context(), p))
		_, e := x.FetchAdd(t.Context(), reg.STag(), 8, 1, 0)
		_, f := x.Verify(t.Context(), reg.STag(), 0, uint32(n+1), nil)
		if err := errors.Join(err, e, f); err != nil {
			t.Fatal(n, err)
		}
	}
	x.Close()
	<-x.Done()
	<-y.Done()
	return [2][]byte{ra.Out(), rb.Out()}
}
