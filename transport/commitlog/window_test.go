package commitlog_test

import (
	"encoding/binary"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// What lies between the durable tail and the last group is less than LazyTail; the tail
// never runs ahead of what is durable, and does not go along with every group. In strict
// mode a flush of the ring leaves it alone.
func TestTailFollows(t *testing.T) {
	const lazyTail = 64 << 10
	const step, capacity = lazyTail / 4, 4 * lazyTail
	for _, mode := range []commitlog.Mode{commitlog.WAL, commitlog.Strict} {
		sim := pmemtest.NewSim(commitlog.RingOff+capacity, nil)
		m := must(commitlog.NewMemory(sim))(t)
		ring, tail := guarded(m.Ring(mode)), guarded(m.TailWord())
		last, moves := uint64(0), 0
		for pos := uint64(0); pos < 3*capacity; pos += step {
			noErr(t, ring.Persist(int(pos%capacity), step))
			durable := binary.BigEndian.Uint64(sim.Told().Durable()[commitlog.TailOff:])
			if durable != last {
				last, moves = durable, moves+1
			}
			if durable > pos || durable != m.Flushed() || mode == commitlog.WAL && pos-durable >= lazyTail {
				t.Fatalf("%v: tail durable to %d, told %d, records to %d", mode, durable, m.Flushed(), pos)
			}
			noErr(t, tail.Store(0, binary.BigEndian.AppendUint64(nil, pos+step)))
		}
		if want := map[commitlog.Mode]int{commitlog.WAL: 11}[mode]; moves != want {
			t.Errorf("%v: the tail was flushed %d times, want %d", mode, moves, want)
		}
	}
}
