package ddp_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// benchQueue has one buffer, which it uses again and again.
type benchQueue struct{ buf []byte }

func (q *benchQueue) Posted() int                      { return 1 }
func (q *benchQueue) Size() int                        { return len(q.buf) }
func (q *benchQueue) Open(*ddp.Segment) ([]byte, bool) { return q.buf, true }

type benchSinks struct{ mem []byte }

func (b *benchSinks) Sink(_ *ddp.Segment, n int) ([]byte, ddp.Violation) { return b.mem[:n], ddp.OK }
func (b *benchSinks) Placed(*ddp.Segment)                                {}

func benchReceiver() *ddp.Receiver {
	return ddp.NewReceiver(ddp.Config{
		Queues: [ddp.NumQueues]ddp.Queue{&benchQueue{make([]byte, 2048)}},
		Sinks:  &benchSinks{make([]byte, 2048)},
	})
}

func TestAllocs(t *testing.T) {
	r := benchReceiver()
	payload := make([]byte, 1424)
	write := seg(ddp.Segment{Tagged: true, Control: 0x40, Last: true, STag: 1}, string(payload))
	buf, msn := make([]byte, 0, 2048), uint32(ddp.FirstMSN)
	receive := func(u []byte) {
		s, err := r.Header(u, len(u))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Place(u[s.HeaderLen():]); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range map[string]func(){
		"tagged": func() { receive(write) },
		"untagged": func() {
			s := ddp.Segment{Control: 0x43, MSN: msn}
			u := append(s.Append(buf), payload...)
			receive(u)
			s.MO, s.Last = uint32(len(payload)), true
			receive(s.Append(buf))
			msn++
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
