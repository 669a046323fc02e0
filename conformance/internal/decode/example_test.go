package decode_test

import (
	"fmt"
	"os"

	"github.com/stag-rdma/stag/conformance/internal/decode"
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
