package capture_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/stag-rdma/stag/rdmap/capture"
)

var (
	client = netip.MustParseAddrPort("192.0.2.1:1000")
	server = netip.MustParseAddrPort("192.0.2.2:20049")
)

// packets reads a capture back with gopacket and checks the checksums of each packet.
func packets(t *testing.T, file []byte) []gopacket.Packet {
	t.Helper()
	r := must(pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions))(t)
	var all []gopacket.Packet
	for {
		data, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		p := gopacket.NewPacket(data, layers.LinkTypeEthernet, gopacket.Default)
		p.Metadata().CaptureInfo = ci
		if err := p.ErrorLayer(); err != nil {
			t.Fatalf("packet %d: %v", len(all)+1, err.Error())
		}
		noErr(t, p.TransportLayer().(*layers.TCP).SetNetworkLayerForChecksum(p.NetworkLayer()))
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

// capturing runs say with a Writer and returns the file.
func capturing(t *testing.T, say func(w *capture.Writer)) []byte {
	t.Helper()
	var file bytes.Buffer
	w := must(capture.NewWriter(&file))(t)
	say(w)
	noErr(t, w.Close())
	return file.Bytes()
}

func TestConn(t *testing.T) {
	for _, ends := range [][2]netip.AddrPort{
		{client, server},
		{netip.MustParseAddrPort("[2001:db8::1]:1000"), netip.MustParseAddrPort("[2001:db8::2]:20049")},
		{client, netip.MustParseAddrPort("[2001:db8::2]:20049")},
	} {
		big := bytes.Repeat([]byte("0123456789"), 20000)
		all := packets(t, capturing(t, func(w *capture.Writer) {
			c := w.Conn(ends[0], ends[1])
			c.Write(capture.ToServer, []byte("hello"))
			c.Write(capture.ToClient, big)
			c.Write(capture.ToServer, nil)
			c.Write(capture.ToServer, []byte(" again"))
			c.Close()
			c.Close()
			c.Write(capture.ToServer, []byte("too late"))
		}))
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

// TestAcknowledged: octets that go only one way are acknowledged all the same, within the window that
// the handshake has announced.
func TestAcknowledged(t *testing.T) {
	all := packets(t, capturing(t, func(w *capture.Writer) {
		c := w.Conn(client, server)
		c.Write(capture.ToServer, make([]byte, 1<<20))
		c.Close()
	}))
	window, acked := uint32(0), uint32(0)
	for i, p := range all {
		tcp := p.TransportLayer().(*layers.TCP)
		for _, o := range tcp.Options {
			if o.OptionType == layers.TCPOptionKindWindowScale {
				window = uint32(65535) << o.OptionData[0]
			}
		}
		if uint16(tcp.SrcPort) == server.Port() {
			acked = tcp.Ack
		} else if out := tcp.Seq + uint32(len(tcp.Payload)) - acked; i > 2 && out > window {
			t.Fatalf("packet %d: %d octets unacknowledged, the window has %d", i+1, out, window)
		}
	}
}

// TestNumbers: no two connections begin with the same sequence number, by which a reader tells apart
// connections between the same addresses.
func TestNumbers(t *testing.T) {
	all := packets(t, capturing(t, func(w *capture.Writer) {
		for range 100 {
			w.Conn(client, server)
		}
	}))
	seen := make(map[uint32]bool)
	for _, p := range all {
		if tcp := p.TransportLayer().(*layers.TCP); tcp.SYN {
			if seen[tcp.Seq] {
				t.Fatalf("two connections begin with the sequence number %d", tcp.Seq)
			}
			seen[tcp.Seq] = true
		}
	}
}

// failAfter is a writer that fails after n octets.
type failAfter struct{ n int }

var errDisk = errors.New("disk full")

func (f *failAfter) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestWriterError(t *testing.T) {
	if _, err := capture.NewWriter(&failAfter{}); !errors.Is(err, errDisk) {
		t.Errorf("NewWriter: %v", err)
	}
	w, err := capture.NewWriter(&failAfter{n: 300})
	if err != nil {
		t.Fatal(err)
	}
	c := w.Conn(client, server)
	c.Write(capture.ToServer, make([]byte, 1000))
	for range 2 {
		if err := w.Close(); !errors.Is(err, errDisk) {
			t.Errorf("Close: %v", err)
		}
	}
	if err := w.Err(); !errors.Is(err, errDisk) {
		t.Errorf("Err: %v", err)
	}
	c.Write(capture.ToServer, []byte("nobody listens"))
	if _, err := capture.Create("no/such/directory"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create: %v", err)
	}
}

// stuck is a writer that accepts the head of the file and then hangs until released.
type stuck struct {
	bytes.Buffer
	release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.Len() > 0 {
		<-s.release
	}
	return s.Buffer.Write(p)
}

// TestSlowFile: a file that hangs delays a connection once, for Patience, and costs the memory of one
// queue. Octets without room are a hole of the right size, and are reported.
func TestSlowFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{release: make(chan struct{})}
		w := must(capture.NewWriter(out))(t)
		c := w.Conn(client, server)
		synctest.Wait() // the Writer hangs in the handshake
		start := time.Now()
		const limit, each = capture.QueueSize, 64 << 10
		for range 2 * limit / each {
			c.Write(capture.ToServer, make([]byte, each))
		}
		if took := time.Since(start); took != capture.Patience {
			t.Errorf("the connection was delayed for %v, want %v", took, capture.Patience)
		}
		lost := w.Dropped()
		if lost < limit || lost > limit+2*each { // all but what is queued, limit at most
			t.Errorf("%d octets lost", lost)
		}
		close(out.release)
		synctest.Wait()
		c.Write(capture.ToServer, []byte("after the hole"))
		var loss *capture.LossError
		if err := w.Close(); !errors.As(err, &loss) || loss.Octets != lost {
			t.Errorf("Close: %v", err)
		}
		all := packets(t, out.Bytes())
		if hole := holes(all, client.Port()); hole != lost {
			t.Errorf("holes of %d octets, want %d", hole, lost)
		}
		if last := all[len(all)-1].TransportLayer().(*layers.TCP); string(last.Payload) != "after the hole" {
			t.Errorf("the capture ends with %q", last.Payload)
		}
	})
}

// holes counts the octets that are missing in a stream according to its sequence numbers.
func holes(all []gopacket.Packet, src uint16) (n uint64) {
	var next uint32
	for i, p := range all {
		tcp := p.TransportLayer().(*layers.TCP)
		if uint16(tcp.SrcPort) != src {
			continue
		}
		if i > 0 && !tcp.SYN {
			n += uint64(tcp.Seq - next)
		}
		next = tcp.Seq + uint32(len(tcp.Payload))
		if tcp.SYN {
			next++
		}
	}
	return n
}

// TestStuckFile: Close gives up on a file that hangs.
func TestStuckFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{release: make(chan struct{})}
		w := must(capture.NewWriter(out))(t)
		w.Conn(client, server)
		start := time.Now()
		if err := w.Close(); !errors.Is(err, capture.ErrStuck) || time.Since(start) != capture.CloseTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		close(out.release)
	})
}
