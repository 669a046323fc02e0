package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// FuzzOrder drives two engines by the octets of the input: they determine which operations are posted, when
// octets move, and when the responder has memory and an executor. Whatever the schedule, only what
// orderModel permits may happen.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{0, 0, 1, 2, 3, 4, 5, 6, 7, 0xc0, 0xc2, 0xc3})
	f.Add([]byte{1, 0xc6, 5, 7, 1, 0, 0xc0, 0xc2, 0xc3, 0xc7, 0xc3})
	f.Add([]byte{2, 0xc4, 0, 2, 3, 1, 0xc0, 0xc2, 0xc3, 0xc5, 0xc3, 6})
	f.Add([]byte{7, 2, 7, 2, 3, 7, 3, 0, 28, 8, 1, 0xc0, 0xc1, 0xc3, 0xc2, 0xc3})
	f.Add([]byte{12, 2, 7, 3, 0xc0, 0xc2, 0xc3})
	f.Fuzz(func(t *testing.T, in []byte) { runOrder(t, in) })
}

// TestOrderModel is FuzzOrder with inputs that differ from run to run.
func TestOrderModel(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for i := range 100 {
		in := make([]byte, 2+rnd.IntN(60))
		for j := range in {
			if in[j] = byte(rnd.UintN(0xc0)); rnd.IntN(3) == 0 {
				in[j] = 0xc0 + byte(rnd.UintN(8))
			}
		}
		if !t.Run(fmt.Sprint(i), func(t *testing.T) { runOrder(t, in) }) {
			t.Fatalf("input %#v", in)
		}
	}
}

// runOrder runs the input: the first octet chooses sizes and memory, each of the others an operation to post
// or another event.
func runOrder(t testing.TB, in []byte) {
	if len(in) == 0 || len(in) > 100 {
		return
	}
	m := newOrderModel(t, in[0])
	for _, b := range in[1:] {
		switch {
		case m.b.err != nil:
		case b < 0xc0:
			m.post(modelKinds[int(b)%len(modelKinds)], int(b)/len(modelKinds)%len(modelOffsets))
		default:
			m.act(b & 7)
		}
	}
	m.finish()
}

func (m *orderModel) act(what byte) {
	switch what {
	case 0:
		m.speak()
	case 1:
		m.arrive(1)
	case 2:
		m.arrive(len(m.wire))
	case 3:
		m.answer()
	case 4:
		if !m.held && m.pool.Load().Octets == 0 {
			m.hog, m.held = m.pool.Get(orderPool)
		}
	case 5:
		m.release()
	case 6, 7:
		m.b.hung = what == 6
	}
}

// finish lets everything happen that still can happen.
func (m *orderModel) finish() {
	m.b.hung = false
	m.release()
	for moved := true; moved && m.b.err == nil; {
		m.speak()
		moved = len(m.wire) > 0
		m.arrive(len(m.wire))
		moved = m.answer() || moved
	}
	m.a.output() // completes what is left after the Terminate
	m.b.rcv.Close()
	for i, op := range m.ops {
		switch {
		case op.done.N != 1:
			m.t.Fatalf("%s completed %d times", op, op.done.N)
		case m.b.err == nil && (op.done.Err != nil || !op.seen):
			m.t.Fatalf("%s did not happen: %v", op, op.done.Err)
		case i > 0 && op.at < m.ops[i-1].at && m.b.err == nil:
			m.t.Fatalf("%s completed before %s", op, m.ops[i-1])
		}
	}
	if m.pool.Load().Octets != 0 {
		m.t.Fatalf("%d octets of memory for messages have not come back", m.pool.Load().Octets)
	}
}

// check compares the memory with what it has to hold.
func (m *orderModel) check() {
	if m.a.err != nil && m.b.err == nil {
		m.t.Fatal(m.a.err)
	}
	if got := m.sim.Bytes(); !bytes.Equal(got, m.want) {
		for i := range got {
			if got[i] != m.want[i] {
				m.t.Fatalf("octet %d is %x, want %x", i, got[i], m.want[i])
			}
		}
	}
}
