package decode_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// readPackets feeds the packets of a file to a capture.
func readPackets(tb testing.TB, file string, c *decode.Capture) {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	for pkt, err := range decode.Packets(bytes.NewReader(b)) {
		if err != nil {
			tb.Fatal(err)
		}
		c.Packet(&pkt)
	}
}

// TestAllocs: bulk data costs less than one allocation per packet.
func TestAllocs(t *testing.T) {
	for _, name := range []string{"b-nfs3-read1m.pcap", "b-nfs3-write1m.pcap"} {
		packets := 0
		n := testing.AllocsPerRun(3, func() {
			c := decode.NewCapture(nil, func(*decode.Event) {})
			readPackets(t, pcapDir+"/"+name, c)
			c.Finish()
			packets = c.Stats.Packets
		})
		t.Logf("%s: %.0f allocations for %d packets", name, n, packets)
		if n > float64(packets) {
			t.Errorf("%s: %.0f allocations for %d packets", name, n, packets)
		}
	}
}

func BenchmarkCapture(b *testing.B) {
	const file = pcapDir + "/b-nfs3-read1m.pcap"
	st, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	b.ReportAllocs()
	for b.Loop() {
		c := decode.NewCapture(nil, func(*decode.Event) {})
		readPackets(b, file, c)
		c.Finish()
	}
}
