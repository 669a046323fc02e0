package pcapwrite

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

var (
	client = netip.MustParseAddrPort("192.0.2.1:1000")
	server = netip.MustParseAddrPort("192.0.2.2:20049")
)

// packets reads a capture back with gopacket and checks the checksums of each packet.
func packets(t *testing.T, file []byte) []gopacket.Packet {
	t.Helper()
	r, err := pcapgo.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var all []gopacket.Packet
	for {
		data, ci, err := r.ReadPacketData()
		if err != nil {
			return all
		}
		p := gopacket.NewPacket(data, layers.LinkTypeEthernet, gopacket.Default)
		p.Metadata().CaptureInfo = ci
		if err := p.ErrorLayer(); err != nil {
			t.Fatalf("packet %d: %v", len(all)+1, err.Error())
		}
		if err := p.TransportLayer().(*layers.TCP).SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
			t.Fatal(err)
		}
		if err, mismatches := p.VerifyChecksums(); err != nil || len(mismatches) > 0 {
			t.Errorf("packet %d: checksums: %v %v", len(all)+1, err, mismatches)
		}
		all = append(all, p)
	}
}

// stream joins the payloads of the packets that src sent and checks the sequence numbers.
func stream(t *testing.T, all []gopacket.Packet, src uint16) []byte {
	t.Helper()
	var out []byte
	var next uint32
	for _, p := range all {
		tcp, ok := p.TransportLayer().(*layers.TCP)
		if !ok || uint16(tcp.SrcPort) != src {
			continue
		}
		if !tcp.SYN && tcp.Seq != next {
			t.Errorf("sequence number %d, want %d", tcp.Seq, next)
		}
		next = tcp.Seq + uint32(len(tcp.Payload))
		if tcp.SYN || tcp.FIN {
			next++
		}
		out = append(out, tcp.Payload...)
	}
	return out
}

func TestConn(t *testing.T) {
	for _, ends := range [][2]netip.AddrPort{
		{client, server},
		{netip.MustParseAddrPort("[2001:db8::1]:1000"), netip.MustParseAddrPort("[2001:db8::2]:20049")},
		{client, netip.MustParseAddrPort("[2001:db8::2]:20049")},
	} {
		var file bytes.Buffer
		w, err := NewWriter(&file)
		if err != nil {
			t.Fatal(err)
		}
		w.Now = func() time.Time { return time.Unix(1000, 0) }
		big := bytes.Repeat([]byte("0123456789"), 20000)
		c := w.Conn(ends[0], ends[1])
		for _, err := range []error{
			c.Write(ToServer, []byte("hello")), c.Write(ToClient, big), c.Write(ToServer, nil),
			c.Write(ToServer, []byte(" again")), c.Close(), c.Close(), c.Write(ToServer, []byte("too late")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		all := packets(t, file.Bytes())
		if got := stream(t, all, ends[0].Port()); string(got) != "hello again" {
			t.Errorf("to the server: %q", got)
		}
		if got := stream(t, all, ends[1].Port()); !bytes.Equal(got, big) {
			t.Errorf("to the client: %d octets, want %d", len(got), len(big))
		}
		if n := len(all); n != 3+1+4+1+2 {
			t.Errorf("%d packets", n)
		}
	}
}

// failAfter is a writer that breaks after n octets.
type failAfter struct{ n int }

var errDisk = errors.New("disk full")

func (f *failAfter) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestWriterError(t *testing.T) {
	if _, err := NewWriter(&failAfter{}); !errors.Is(err, errDisk) {
		t.Errorf("NewWriter: %v", err)
	}
	w, err := NewWriter(&failAfter{n: 24 + 3*(16+14+20+24)})
	if err != nil {
		t.Fatal(err)
	}
	c := w.Conn(client, server)
	if err := c.Write(ToServer, make([]byte, 100)); !errors.Is(err, errDisk) {
		t.Errorf("Write: %v", err)
	}
	if err := w.Err(); !errors.Is(err, errDisk) {
		t.Errorf("Err: %v", err)
	}
	if err := c.Close(); !errors.Is(err, errDisk) {
		t.Errorf("Close: %v", err)
	}
}
