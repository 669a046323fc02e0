package machine

import "github.com/stag-rdma/stag/transport/commitlog/internal/layout"

// Answer is what a producer is told when its session is opened. It, and nothing else,
// tells what has survived of an earlier one.
type Answer struct {
	ID         [16]byte // of the log
	Epoch      uint32
	Salt       uint64
	Capacity   uint64
	Mode       layout.Mode
	Hash       layout.Hash
	Persistent bool   // the memory can be flushed for persistence
	Head       uint64 // what is below may be overwritten
	Tail       uint64 // where the next record goes
	NextSeq    uint64 // its number: all before have survived
}
