package rdmap

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/region"
)

// buildable is the hook for errors found while a message of ours is built (RFC 5040
// Section 7.1), which only a Read Request can have: payloads are lent memory, responses
// are refused when they are executed. Its sink may have gone since it was posted. Sent
// all the same, the Response would be the first to find out, and the Terminate would
// blame the peer that sent it. So nothing is sent but the Terminate of a local
// catastrophic error, without headers. It runs with the lock of the Conn held.
func (s *sender) buildable(it *item) bool {
	if it.op != OpReadRequest || it.read.size == 0 || s.sinks == nil || s.local != nil {
		return s.local == nil
	}
	view, err := s.sinks.Lookup(it.read.sink, it.read.sinkTO, it.read.size, region.ReadSink)
	if err != nil {
		s.local = &LocalError{Err: fmt.Errorf("%w: %w", ErrSinkLost, err)}
		return false
	}
	view.Release()
	return true
}
