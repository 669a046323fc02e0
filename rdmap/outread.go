package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// outRead is a request of ours whose response is due: the requester's side of RFC
// 5040 Section 4.4 and RFC 7306 Section 5.
type outRead struct {
	op     verbs.Opcode  // of the request
	id     uint32        // OpAtomicRequest: its identifier
	answer *verbs.Answer // if not a Read: the place for the answer, may be nil
	want   *wantedHash   // OpVerifyRequest: what the peer compares with; nil: nothing
	// OpReadRequest:
	sink       region.STag
	sinkTO     uint64
	size       uint32
	invalidate bool            // invalidate sink before the completion
	done       verbs.Completer // for cancel only
	// cancelled: nobody wants the octets any more. The response is still due, is
	// checked, and is dropped.
	cancelled bool
}
