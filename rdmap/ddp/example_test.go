package ddp_test

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// receives is a queue with room for that many messages of up to 64 octets.
type receives int

func (q *receives) Posted() int { return int(*q) }
func (q *receives) Size() int   { return 64 }

func (q *receives) Open(*ddp.Segment) ([]byte, bool) {
	*q--
	return make([]byte, 64), true
}

// A message in three segments from one side to the other.
func Example() {
	posted := receives(1)
	r := ddp.NewReceiver(ddp.Config{Queues: [ddp.NumQueues]ddp.Queue{ddp.QNSend: &posted}})

	message := "placed, then delivered"
	for off := 0; off < len(message); off += 8 {
		end := min(off+8, len(message))
		s := ddp.Segment{Control: 0x43, QN: ddp.QNSend, MSN: ddp.FirstMSN, MO: uint32(off), Last: end == len(message)}
		ulpdu := append(s.Append(nil), message[off:end]...)

		h, err := r.Header(ulpdu, len(ulpdu))
		if err != nil {
			fmt.Println(err)
			return
		}
		ev, err := r.Place(ulpdu[h.HeaderLen():])
		fmt.Println(ev.Placed, ev.Delivered, string(ev.Data), err)
	}
	// Output:
	// 8 false  <nil>
	// 8 false  <nil>
	// 6 true placed, then delivered <nil>
}
