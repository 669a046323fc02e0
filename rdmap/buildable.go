package rdmap

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// buildable reports whether a message of ours can be built (RFC 5040 Section 7.1). Only a Read Request
// can turn out not to be: payloads are lent memory, and responses are refused when they are executed.
// The sink of a Read may be gone since it was posted. If the request were sent all the same, the
// Response would be the first to find out, and the Terminate would blame the peer for it. So only the
// Terminate of a local catastrophic error is sent, without headers. The lock of the Conn is held.
func (s *sender) buildable(it *item) bool {
	if it.op != verbs.OpReadRequest || it.read.size == 0 || s.sinks == nil || s.local != nil {
		return s.local == nil
	}
	view, err := s.sinks.Lookup(it.read.sink, it.read.sinkTO, it.read.size, region.ReadSink)
	if err != nil {
		s.local = &verbs.LocalError{Err: fmt.Errorf("%w: %w", verbs.ErrSinkLost, err)}
		return false
	}
	view.Release()
	return true
}
