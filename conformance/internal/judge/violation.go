package judge

import (
	"fmt"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// Violation is one breach of one rule.
type Violation struct {
	Rule   *Rule
	Conn   *decode.ConnInfo // the decoder's; complete once the capture has been read
	Dir    decode.Dir       // who broke the rule
	Frame  int              // packet that shows it, from 1; the last one for violations that show only at the end
	Time   time.Time        // of that packet
	Offset uint64           // of the event's first octet in the stream of Dir
	PSN    *uint32          // of a packet of RoCE; nil: the violation is not in one
	Detail string           // what was found, and what was expected

	// Cause is the mistake of which this is a consequence; nil: it is a mistake of its own. It is certain
	// only once the capture has been judged.
	Cause *Violation
	// Consequences are the violations of which this is the cause, the first 100 of them, and Folded says how many
	// there were. Only a [Report] has them.
	Consequences []*Violation
	Folded       int

	// Withdrawn: the octets were sent again, with other contents that are right, and which of them the receiver took is
	// unknown; or packets before it turn out to be missing. A [Report] has no such violations.
	Withdrawn bool

	unsure   bool       // with RoCE: whether no packet before it is missing is not known yet
	accepted *Violation // of the receiver that has carried on
}

// String returns "DDP-005 conn 1 > frame 17: MSN 4 on queue 0, expected 3".
func (v *Violation) String() string {
	return fmt.Sprintf("%s conn %d %v frame %d: %s", v.Rule.ID, v.Conn.ID, v.Dir, v.Frame, v.Detail)
}
