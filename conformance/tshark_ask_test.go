package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// tshark shares no code with us. tshark 4.0 needs help to be right about iWARP; askTshark gives it:
//
//   - It loses its place in FPDUs that TCP has cut, so it gets the capture rewritten by
//     reframe: one TCP segment per frame.
//   - Reading once, it dissects a reply whose result came by a Write chunk twice, the
//     second time as if the data were inline, where it runs over the end. Reading twice
//     (-2) it puts the data in, but then stumbles over Sends of several FPDUs (a failed
//     assertion of its own). So a complaint counts only if it makes it both times.
//   - A Write chunk carries no XDR roundup (RFC 8166 Section 3.4.6.2), and tshark misses
//     it: complaints about replies whose chunks are not a multiple of
//     four octets do not count.
//   - It goes by the ports of a connection first, and one end has a port that the kernel has
//     chosen (57000 is IRC to tshark). It is told to look at the octets first.
//
// It makes all of these mistakes with captures of Linux talking to Linux; see the tests.

// errNoTshark: tshark is not installed.
var errNoTshark = errors.New("tshark is not installed here: apt-get install tshark")

// heuristic makes tshark look for MPA before it goes by port: one end of a connection has a port that the
// kernel has chosen, and 57000 is IRC.
const heuristic = "tcp.try_heuristic_first:TRUE"

// tsharkReport is what tshark finds in a capture.
type tsharkReport struct {
	FPDUs             int // that tshark finds
	Decoded           int // that our decoder finds
	GoodCRCs, BadCRCs int
	Malformed         []tsharkComplaint
}

// tsharkComplaint is a packet that tshark marks as malformed or with an error.
type tsharkComplaint struct {
	Frame  int // of the capture that reframe made
	From   netip.Addr
	Offset uint64 // in its stream
	Event  string // what our decoder says about it
}

// Err returns nil if tshark finds nothing wrong, and as many FPDUs as our decoder.
func (r *tsharkReport) Err() error {
	var errs []error
	for _, c := range r.Malformed {
		errs = append(errs, fmt.Errorf("tshark finds packet %d from %v malformed: %s", c.Frame, c.From, c.Event))
	}
	if r.BadCRCs > 0 {
		errs = append(errs, fmt.Errorf("tshark finds %d bad CRCs", r.BadCRCs))
	}
	if r.FPDUs != r.Decoded {
		errs = append(errs, fmt.Errorf("tshark finds %d FPDUs, we find %d", r.FPDUs, r.Decoded))
	}
	return errors.Join(errs...)
}

// askTshark runs tshark on a capture. An error means that this was not possible: errNoTshark, or an error of the
// file or of tshark.
func askTshark(ctx context.Context, file string) (*tsharkReport, error) {
	if _, err := exec.LookPath("tshark"); err != nil {
		return nil, errNoTshark
	}
	dir, err := os.MkdirTemp("", "tshark")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	j := tsharkRun{ctx: ctx, file: filepath.Join(dir, "reframed.pcap")}
	rpc, err := reframeFile(j.file, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !rpc { // if there is none, tshark still finds some
		j.flags = []string{"--disable-protocol", "rpcordma"}
	}
	return j.report()
}

func reframeFile(to, from string) (rpc bool, err error) {
	in, err := os.Open(from)
	if err != nil {
		return false, err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return false, err
	}
	w := bufio.NewWriter(out)
	rpc, err = reframe(w, in)
	return rpc, errors.Join(err, w.Flush(), out.Close())
}

// tsharkRun runs tshark on one reframed capture.
type tsharkRun struct {
	ctx   context.Context
	file  string
	flags []string
}

func (j *tsharkRun) report() (*tsharkReport, error) {
	once, err := j.marked()
	if err != nil {
		return nil, err
	}
	if len(once) > 0 {
		twice, err := j.marked("-2")
		if err != nil {
			return nil, err
		}
		once = slices.DeleteFunc(once, func(n int) bool { return !slices.Contains(twice, n) })
	}
	text, err := j.tshark("-O", "iwarp_mpa")
	if err != nil {
		return nil, err
	}
	r := &tsharkReport{
		FPDUs:    bytes.Count(text, []byte("ULPDU length:")),
		GoodCRCs: bytes.Count(text, []byte("(Good CRC32)")),
		BadCRCs:  bytes.Count(text, []byte("(Bad CRC32")),
	}
	return r, r.explain(j.file, once)
}

// explain decodes the capture to say what the complaints are about, and leaves out those that are known to
// be wrong.
func (r *tsharkReport) explain(file string, frames []int) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	for ev, err := range decode.Events(in, nil) {
		if err != nil {
			return err
		}
		if ev.Kind == decode.KindFPDU {
			r.Decoded++
		}
		if len(ev.Raw) == 0 || !slices.Contains(frames, ev.Frame) || unpadded(ev) {
			continue
		}
		from := ev.Conn.Opener
		if ev.Dir == decode.FromAccepter {
			from = ev.Conn.Accepter
		}
		r.Malformed = append(r.Malformed, tsharkComplaint{ev.Frame, from.Addr(), ev.Offset, strings.TrimSpace(ev.String())})
	}
	return nil
}

// unpadded reports a reply with a Write chunk that is not a multiple of four octets.
func unpadded(ev *decode.Event) bool {
	if ev.Header == nil || ev.RPC == nil || !ev.RPC.IsReply {
		return false
	}
	for _, c := range ev.Header.Write {
		if c.Room()%4 != 0 {
			return true
		}
	}
	return false
}

// marked returns the packets that tshark marks as malformed, or with an error.
func (j *tsharkRun) marked(flags ...string) ([]int, error) {
	out, err := j.tshark(append(flags, "-T", "fields", "-e", "frame.number",
		"-Y", "_ws.malformed || _ws.expert.severity >= 0x00800000")...)
	if err != nil {
		return nil, err
	}
	var frames []int
	for s := range strings.FieldsSeq(string(out)) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("tshark: %w", err)
		}
		frames = append(frames, n)
	}
	return frames, nil
}

func (j *tsharkRun) tshark(flags ...string) ([]byte, error) {
	cmd := exec.CommandContext(j.ctx, "tshark", slices.Concat([]string{"-r", j.file, "-o", heuristic}, j.flags, flags)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", cmd.Args, err, stderr.Bytes())
	}
	return out, nil
}

// maxSegment is the largest TCP payload of one packet, octets: more than any FPDU.
const maxSegment = 65535 - 20 - 20

// reframe copies a capture so that every MPA frame is one TCP segment, whatever the segments of the original, and
// reports whether there is RPC-over-RDMA: same ends, same octets, times of the last octets. Streams that are not MPA are
// cut as they come. Holes in the original are holes in the copy. If a connection has the addresses and ports of an earlier
// one, the opener gets another port, since tshark takes the two for one. RoCE is left out.
func reframe(out io.Writer, in io.Reader) (rpc bool, err error) {
	w := pcapgo.NewWriterNanos(out)
	if err := w.WriteFileHeader(maxSegment+74, layers.LinkTypeEthernet); err != nil {
		return false, err
	}
	f := reframer{w: w, buf: gopacket.NewSerializeBuffer(), conns: make(map[int]*reframed), used: make(map[[2]netip.AddrPort]bool)}
	for ev, err := range decode.Events(in, nil) {
		if err == nil && ev.Conn.Carrier == decode.CarrierTCP {
			rpc = rpc || ev.Conn.ULP == decode.ULPRPCRDMA
			err = f.event(ev)
		}
		if err != nil {
			return rpc, err
		}
	}
	return rpc, nil
}

// reframer writes the packets.
type reframer struct {
	w     *pcapgo.Writer
	buf   gopacket.SerializeBuffer
	conns map[int]*reframed
	used  map[[2]netip.AddrPort]bool
}

// reframed is a connection of the copy: what is said by its opener, and to it.
type reframed struct {
	ends [2]netip.AddrPort // the opener's first
	next [2]uint32         // sequence numbers, by direction
}

// open returns the connection of ev with ends that no other has had.
func (f *reframer) open(ev *decode.Event) *reframed {
	isn := uint32(ev.Conn.ID) * 1_000_003
	c := &reframed{ends: [2]netip.AddrPort{ev.Conn.Opener, ev.Conn.Accepter}, next: [2]uint32{isn, ^isn}}
	for f.used[c.ends] {
		c.ends[0] = netip.AddrPortFrom(c.ends[0].Addr(), c.ends[0].Port()+1)
	}
	f.used[c.ends] = true
	return c
}

// event writes the packets of one event.
func (f *reframer) event(ev *decode.Event) error {
	if ev.Kind == decode.KindOpen {
		f.conns[ev.Conn.ID] = f.open(ev)
		return f.handshake(ev, f.conns[ev.Conn.ID])
	}
	c := f.conns[ev.Conn.ID]
	if ev.Kind == decode.KindClose {
		return f.send(ev, c, &layers.TCP{FIN: !ev.Reset, RST: ev.Reset, ACK: true}, nil)
	}
	c.next[ev.Dir] += uint32(ev.Missing)
	for p := ev.Raw; len(p) > 0; {
		n := min(len(p), maxSegment)
		if err := f.send(ev, c, &layers.TCP{PSH: true, ACK: true}, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// handshake opens a connection, from the opener whoever was seen first.
func (f *reframer) handshake(ev *decode.Event, c *reframed) error {
	for _, s := range []struct {
		dir decode.Dir
		tcp layers.TCP
	}{
		{decode.FromOpener, layers.TCP{SYN: true}},
		{decode.FromAccepter, layers.TCP{SYN: true, ACK: true}},
		{decode.FromOpener, layers.TCP{ACK: true}},
	} {
		ev.Dir = s.dir
		if err := f.send(ev, c, &s.tcp, nil); err != nil {
			return err
		}
	}
	return nil
}

// send writes one packet.
func (f *reframer) send(ev *decode.Event, c *reframed, tcp *layers.TCP, payload []byte) error {
	src, dst := c.ends[ev.Dir], c.ends[1-ev.Dir]
	tcp.SrcPort, tcp.DstPort = layers.TCPPort(src.Port()), layers.TCPPort(dst.Port())
	tcp.Seq, tcp.Window = c.next[ev.Dir], 65535
	if tcp.ACK {
		tcp.Ack = c.next[1-ev.Dir]
	}
	c.next[ev.Dir] += uint32(len(payload))
	if tcp.SYN || tcp.FIN {
		c.next[ev.Dir]++
	}
	eth, ip := network(src.Addr().Unmap(), dst.Addr().Unmap())
	err := gopacket.SerializeLayers(f.buf, gopacket.SerializeOptions{FixLengths: true}, eth, ip, tcp, gopacket.Payload(payload))
	if err != nil {
		return err
	}
	n := len(f.buf.Bytes())
	return f.w.WritePacket(gopacket.CaptureInfo{Timestamp: ev.Time, CaptureLength: n, Length: n}, f.buf.Bytes())
}

// network returns the headers between two addresses of one family.
func network(src, dst netip.Addr) (eth, ip gopacket.SerializableLayer) {
	e := &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4}
	if src.Is4() {
		return e, &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
	}
	e.EthernetType = layers.EthernetTypeIPv6
	return e, &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
}
