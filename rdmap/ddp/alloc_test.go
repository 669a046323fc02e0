package ddp

import "testing"

// benchQueue has one buffer, which it uses again and again.
type benchQueue struct{ buf []byte }

func (q *benchQueue) Posted() int                  { return 1 }
func (q *benchQueue) Size() int                    { return len(q.buf) }
func (q *benchQueue) Open(*Segment) ([]byte, bool) { return q.buf, true }

type benchSinks struct{ mem []byte }

func (b *benchSinks) Sink(_ *Segment, n int) ([]byte, Violation) { return b.mem[:n], OK }
func (b *benchSinks) Placed(*Segment)                            {}

func benchReceiver() *Receiver {
	return NewReceiver(Config{
		Queues: [NumQueues]Queue{&benchQueue{make([]byte, 2048)}},
		Sinks:  &benchSinks{make([]byte, 2048)},
	})
}

func TestAllocs(t *testing.T) {
	r := benchReceiver()
	payload := make([]byte, 1424)
	write := seg(Segment{Tagged: true, Control: 0x40, Last: true, STag: 1}, string(payload))
	buf, msn := make([]byte, 0, 2048), uint32(FirstMSN)
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
			s := Segment{Control: 0x43, MSN: msn}
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

func BenchmarkReceiver(b *testing.B) {
	r := benchReceiver()
	u := seg(Segment{Tagged: true, Control: 0x40, Last: true, STag: 1}, string(make([]byte, 64)))
	b.ReportAllocs()
	for b.Loop() {
		s, _ := r.Header(u, len(u))
		_, _ = r.Place(u[s.HeaderLen():])
	}
}
