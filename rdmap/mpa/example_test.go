package mpa_test

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// The startup of a connection, whose octets are passed by hand.
func Example() {
	initiator, _ := mpa.NewInitiator(&mpa.Config{IRD: 16, ORD: 8, PrivateData: []byte("hello")})
	responder, _ := mpa.NewResponder(&mpa.Config{IRD: 4, ORD: 64, NoCRC: true})

	request := initiator.AppendRequest(nil)
	if _, err := responder.Input(request); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("request: %s\n", responder.Request().PrivateData)
	reply, _ := responder.Accept(nil, []byte("welcome"))
	if _, err := initiator.Input(reply); err != nil {
		fmt.Println(err)
		return
	}
	n := initiator.Result()
	fmt.Printf("reply: %s, CRC %v, IRD %d, ORD %d\n", n.PrivateData, n.CRC, n.IRD, n.ORD)
	// Output:
	// request: hello
	// reply: welcome, CRC true, IRD 16, ORD 4
}

func ExampleResponder_Reject() {
	initiator, _ := mpa.NewInitiator(&mpa.Config{})
	responder, _ := mpa.NewResponder(&mpa.Config{})
	_, _ = responder.Input(initiator.AppendRequest(nil))
	reply, _ := responder.Reject(nil, []byte("not today"))

	_, err := initiator.Input(reply)
	if e, ok := errors.AsType[*mpa.RejectError](err); ok {
		fmt.Printf("%s\n", e.Reply.PrivateData)
	}
	// Output: not today
}

func ExampleParseRequest() {
	wire := []byte("MPA ID Req Frame\x50\x02\x00\x06\x00\x10\x00\x08hi")
	_, n, err := mpa.ParseRequest(wire[:19])
	fmt.Println(n, err) // more is needed
	r, n, err := mpa.ParseRequest(wire)
	fmt.Println(n, err, r.CRC, r.Word.IRD, r.Word.ORD, string(r.PrivateData))
	// Output:
	// 0 <nil>
	// 26 <nil> true 16 8 hi
}

// A stream that arrives in two reads.
func ExampleDeframer() {
	stream := mpa.AppendFPDU(nil, []byte("first"), true)
	stream = mpa.AppendFPDU(stream, []byte("second"), true)

	d := mpa.Deframer{CRC: true}
	var staged []byte
	for _, read := range [][]byte{stream[:17], stream[17:]} {
		staged = append(staged, read...)
		for {
			ulpdu, n, err := d.Next(staged)
			if err != nil || n == 0 {
				fmt.Println("more needed:", err == nil)
				break
			}
			fmt.Printf("%s\n", ulpdu)
			staged = staged[n:]
		}
	}
	fmt.Println("graceful:", d.EOF(staged) == nil)
	// Output:
	// first
	// more needed: true
	// second
	// more needed: true
	// graceful: true
}

// An FPDU that is built in the buffer from which it will be sent.
func ExampleFinishFPDU() {
	staging := make([]byte, 0, 64)
	at := len(staging)
	staging = mpa.BeginFPDU(staging)
	staging = append(staging, "payload"...)
	staging = mpa.FinishFPDU(staging, at, true)
	fmt.Println(len(staging), mpa.FPDULen(7))
	// Output: 16 16
}

func ExampleMULPDU() {
	fmt.Println(mpa.MULPDU(1448, false), mpa.MULPDU(1448, true))
	// Output: 1442 1430
}

// The peer asked for markers. The second FPDU begins at octet 512, with a marker that belongs to it.
func ExampleInserter() {
	var m mpa.Inserter
	first := m.AppendFPDU(nil, make([]byte, 502), true)
	second := m.AppendFPDU(nil, []byte("HELLO"), true)
	fmt.Printf("%d octets, %x\n", len(first), second)
	// Output: 512 octets, 00000000000548454c4c4f000f7fc038
}

// FPDUs in two entries that are complete except for markers and CRC; the payload is not copied.
func ExampleInserter_Insert() {
	fpdu := mpa.AppendFPDU(nil, make([]byte, 1000), false)
	vec := [][]byte{fpdu[:20], fpdu[20:]}

	var m mpa.Inserter
	arena := make([]byte, 0, m.InsertRoom(len(fpdu)))
	entries, arena := m.Insert(nil, arena, vec, true)
	for _, b := range entries { // net.Buffers(entries).WriteTo(conn)
		fmt.Print(len(b), " ")
	}
	fmt.Println(len(arena))
	// Output: 4 20 488 4 500 8
}

// We asked for markers. An FPDU that cannot be used yet is returned again.
func ExampleDeframer_Unread() {
	var m mpa.Inserter
	staged := m.AppendFPDU(nil, []byte("HELLO"), true)

	d := mpa.Deframer{CRC: true}
	d.ExpectMarkers()
	for _, ready := range []bool{false, true} {
		ulpdu, n, err := d.Next(staged)
		if !ready {
			d.Unread()
			continue
		}
		fmt.Printf("%s %d %v\n", ulpdu, n, err)
	}
	// Output: HELLO 16 <nil>
}

// The peer closed without an answer: it may know only RFC 5044.
func ExampleInitiator_Fallback() {
	initiator, _ := mpa.NewInitiator(&mpa.Config{IRD: 16})
	request := initiator.AppendRequest(nil)
	responder, _ := mpa.NewResponder(&mpa.Config{MaxRev: 1})
	_, err := responder.Input(request)
	fmt.Println(err)

	if cfg, ok := initiator.Fallback(nil); ok { // on a new connection
		initiator, _ = mpa.NewInitiator(&cfg)
		request = initiator.AppendRequest(nil)
		responder, _ = mpa.NewResponder(&mpa.Config{MaxRev: 1})
		_, err = responder.Input(request)
		fmt.Println(request[17], err)
	}
	// Output:
	// mpa: request: Rev at octet 17: revision not supported
	// 1 <nil>
}

// Messages are built before their numbers are known, so the CRCs come last.
func ExampleWriteCRCs() {
	var batch []byte
	for _, ulpdu := range []string{"one", "two", "six", "ten"} {
		batch = mpa.AppendFPDU(batch, []byte(ulpdu), false)
	}
	mpa.WriteCRCs(batch)

	d := mpa.Deframer{CRC: true}
	for len(batch) > 0 {
		ulpdu, n, err := d.Next(batch)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", ulpdu)
		batch = batch[n:]
	}
	// Output:
	// one
	// two
	// six
	// ten
}
