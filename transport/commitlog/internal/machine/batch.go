package machine

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// WireKind is the kind of a WireOp.
type WireKind uint8

// The kinds, each an operation of RDMAP (draft-talpey-rdma-commit Section 3).
const (
	WireWrite     WireKind = iota // RDMA Write of Data to Off
	WireFlush                     // Flush of N octets at Off
	WireVerify                    // Verify of N octets at Off: their hash must be Data
	WireSetTail                   // Atomic Write of Data to the tail word
	WireFlushTail                 // Flush of the tail word
	numberWires                   // not a kind
)

var wireNames = [numberWires]string{
	WireWrite: "write", WireFlush: "flush", WireVerify: "verify", WireSetTail: "set tail", WireFlushTail: "flush tail",
}

// String returns the kind in words.
func (k WireKind) String() string {
	if int(k) < len(wireNames) {
		return wireNames[k]
	}
	return fmt.Sprintf("WireKind(%d)", uint8(k))
}

// WireOp is one operation on the peer's memory. Off is from the start of the ring.
type WireOp struct {
	Kind WireKind
	Off  uint64
	N    int
	Data []byte
}

// Batch is a group of appends that share their flushes. Its Ops are sent in order with nothing in
// between. It is over when the last one is answered; the Ops are lent until then.
type Batch struct {
	Ops []WireOp
	// Tag belongs to the owner, and stays when the batch is reused.
	Tag any

	runs   [2]run // adjacent in the ring, so at most two
	nruns  int
	count  int // appends
	octets int // size of their records
	tail   [8]byte
	sums   [2][crc32.Size]byte
}

// run is a piece of the ring without a gap.
type run struct {
	off  uint64
	data []byte
}

// ops lays out the operations of a batch that ends at tail.
func (b *Batch) ops(p *Producer, tail uint64) {
	b.Ops = b.Ops[:0]
	runs := b.runs[:b.nruns]
	for _, r := range runs {
		b.Ops = append(b.Ops, WireOp{Kind: WireWrite, Off: r.off, N: len(r.data), Data: r.data})
	}
	binary.BigEndian.PutUint64(b.tail[:], tail)
	set := WireOp{Kind: WireSetTail, N: 8, Data: b.tail[:]}
	for _, r := range runs {
		b.Ops = append(b.Ops, WireOp{Kind: WireFlush, Off: r.off, N: len(r.data)})
	}
	if p.verify {
		for i, r := range runs {
			b.Ops = append(b.Ops, WireOp{Kind: WireVerify, Off: r.off, N: len(r.data), Data: b.sum(i)})
		}
	}
	b.Ops = append(b.Ops, set)
	if p.mode == Strict {
		b.Ops = append(b.Ops, WireOp{Kind: WireFlushTail, N: 8})
	}
}

func (b *Batch) sum(i int) []byte {
	return binary.BigEndian.AppendUint32(b.sums[i][:0], crc32c.Update(0, b.runs[i].data))
}
