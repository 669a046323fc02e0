package decode_test

import (
	"fmt"
	"os"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// The calls of an NFS session, in order, and their results.
func ExampleEvents() {
	f, err := os.Open("../../testdata/pcaps/b-nfs3-write1m.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	for ev, err := range decode.Events(f, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if r := ev.RPC; r != nil && (r.Pulled || r.IsReply && r.Name == "NFSv3 WRITE") {
			fmt.Println(ev)
		}
	}
	// Output:
	//  2239 c1 > FPDU ulpdulength=438 crc=off RDMA Read Response stag=f8a95701 to=0xffff8880073c1e58 len=424 last | Read chunks of xid=0xb94e542e complete: call NFSv3 WRITE fh=0xcf4a8ad6 offset=0 count=1048576 stable=2
	//  2241 c1 < FPDU ulpdulength=182 crc=off Send with Invalidate qn=0 msn=12 mo=0 inval_stag=ac518001 len=164 last | RDMA_MSG xid=0xb94e542e credits=64 | reply NFSv3 WRITE NFS3_OK count=1048576 committed=2 (call in 34)
}

// A connection that never was packets: octets of both directions, as an engine sent them.
func ExampleNewConn() {
	c := decode.NewConn(nil, func(ev *decode.Event) { fmt.Println(ev) })
	req, _ := (&mpa.Request{Frame: mpa.Frame{Rev: 1, CRC: true}}).Append(nil)
	rep, _ := (&mpa.Reply{Frame: mpa.Frame{Rev: 1, CRC: true}}).Append(nil)
	hello := append([]byte{0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, "HELLO"...)
	c.Octets(decode.FromOpener, req, decode.Stamp{Frame: 1})
	c.Octets(decode.FromAccepter, rep, decode.Stamp{Frame: 2})
	c.Octets(decode.FromOpener, mpa.AppendFPDU(nil, hello, true), decode.Stamp{Frame: 3})
	c.Finish()
	// Output:
	//     1 c0 > MPA Request rev=1 flags=0x40(C) pdlength=0
	//     2 c0 < MPA Reply rev=1 flags=0x40(C) pdlength=0
	//     3 c0 > FPDU ulpdulength=23 crc=ok Send qn=0 msn=1 mo=0 len=5 last
}

func ExampleNewCapture() {
	f, err := os.Open("../../testdata/pcaps/d-terminate.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	terminates := 0
	c := decode.NewCapture(nil, func(ev *decode.Event) {
		if ev.Message != nil && ev.Message.Terminate != nil {
			terminates++
		}
	})
	for pkt, err := range decode.Packets(f) {
		if err != nil {
			fmt.Println(err)
			return
		}
		c.Packet(&pkt)
	}
	c.Finish()
	fmt.Printf("%+v, %d Terminates\n", c.Stats, terminates)
	// Output: {Packets:110 TCP:110 RoCE:0 Connections:9 Stray:0 Fragments:0 Unread:0 UnreadLink:0}, 7 Terminates
}

func ExamplePackets() {
	f, err := os.Open("../../testdata/pcaps/d-reject.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	octets := 0
	for pkt, err := range decode.Packets(f) {
		if err != nil {
			fmt.Println(err)
			return
		}
		octets += len(pkt.Data)
	}
	fmt.Println(octets)
	// Output: 871
}

func ExampleCounts() {
	f, err := os.Open("../../testdata/pcaps/b-nfs3-read1m.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	counts := make(decode.Counts)
	for ev, err := range decode.Events(f, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		counts.Add(ev)
	}
	fmt.Println(counts["opcode.0x00"], "segments of RDMA Writes,", counts["chunk.write"], "Write chunks")
	// Output: 768 segments of RDMA Writes, 2 Write chunks
}

// What NFSv4 clients request: the operations of their COMPOUNDs.
func ExampleCompound() {
	f, err := os.Open("../../testdata/pcaps/c-nfs42-xattr.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	ops := make(map[string]int)
	for ev, err := range decode.Events(f, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if r := ev.RPC; r != nil && r.Compound != nil && !r.IsReply {
			for _, op := range r.Compound.Ops {
				ops[op.Name]++
			}
		}
	}
	fmt.Println(ops["SEQUENCE"], "SEQUENCE,", ops["SETXATTR"], "SETXATTR,", ops["LISTXATTRS"], "LISTXATTRS")
	// Output: 18 SEQUENCE, 2 SETXATTR, 2 LISTXATTRS
}

// A capture that begins in the middle of a connection: decoding begins with the first FPDU that is proved to be
// one, and the connection says what cannot be known.
func ExampleConnInfo() {
	f, err := os.Open("../../testdata/pcaps/f-nfs3-crc-ops.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	var conn *decode.ConnInfo
	fpdus := 0
	c := decode.NewCapture(nil, func(ev *decode.Event) {
		if conn = ev.Conn; ev.Kind == decode.KindFPDU {
			fpdus++
		}
	})
	for pkt, err := range decode.Packets(f) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if pkt.Frame > 100 {
			c.Packet(&pkt)
		}
	}
	c.Finish()
	fmt.Println(fpdus, "FPDUs, CRC", conn.CRC)
	for _, what := range conn.Unknown.Reasons() {
		fmt.Println("unknown:", what)
	}
	// Output:
	// 140 FPDUs, CRC true
	// unknown: the startup: private data, IRD and ORD, inline thresholds, markers
	// unknown: who is the initiator
	// unknown: message numbers, credits, calls, STags and Read Requests from before the capture
}

// A connection that lacks octets: the rest of the FPDU they were in is left out, and decoding goes on after it.
func ExampleConn_Hole() {
	c := decode.NewConn(nil, func(ev *decode.Event) { fmt.Println(ev) })
	req, _ := (&mpa.Request{Frame: mpa.Frame{Rev: 1, CRC: true}}).Append(nil)
	rep, _ := (&mpa.Reply{Frame: mpa.Frame{Rev: 1, CRC: true}}).Append(nil)
	c.Octets(decode.FromOpener, req, decode.Stamp{Frame: 1})
	c.Octets(decode.FromAccepter, rep, decode.Stamp{Frame: 2})
	hello := func(msn byte) []byte {
		u := append([]byte{0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, msn, 0, 0, 0, 0}, "HELLO"...)
		return mpa.AppendFPDU(nil, u, true)
	}
	c.Octets(decode.FromOpener, hello(1)[:4], decode.Stamp{Frame: 3})
	c.Hole(decode.FromOpener, 28, decode.Stamp{Frame: 4})
	c.Octets(decode.FromOpener, hello(2), decode.Stamp{Frame: 5})
	c.Finish()
	// Output:
	//     1 c0 > MPA Request rev=1 flags=0x40(C) pdlength=0
	//     2 c0 < MPA Reply rev=1 flags=0x40(C) pdlength=0
	//     3 c0 > 4 octets not decoded !! incomplete frame at the end
	//     4 c0 > 0 octets not decoded !! octets missing from the capture: 28
	//     5 c0 > FPDU ulpdulength=23 crc=ok Send qn=0 msn=2 mo=0 len=5 last
}
