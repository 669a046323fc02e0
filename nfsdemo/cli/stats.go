package cli

import (
	"fmt"
	"io"

	"github.com/stag-rdma/stag/transport/rpc"
)

// printStats prints the counters of a connection or a server.
func printStats(w io.Writer, who string, s rpc.Stats) {
	fmt.Fprintf(w, "%s: %d calls, %s by RDMA Read, %s by RDMA Write, %s inline, %d credits\n",
		who, s.Calls, octets(s.OctetsRead), octets(s.OctetsWritten), octets(s.OctetsInline), s.Credits)
	if s.ReadSegments+s.WriteSegments+s.ReplySegments > 0 {
		fmt.Fprintf(w, "%s: %d read, %d write and %d reply chunk segments, %d long calls\n",
			who, s.ReadSegments, s.WriteSegments, s.ReplySegments, s.LongCalls)
	}
	if n := s.Replayed + s.Joined; n > 0 {
		fmt.Fprintf(w, "%s: %d repeated calls were not run again\n", who, n)
	}
	if r := refusals(s); r != "" {
		fmt.Fprintf(w, "%s: %s\n", who, r)
	}
	if s.Retransmits > 0 {
		fmt.Fprintf(w, "%s: %d connections, %d calls sent again\n", who, s.Accepted, s.Retransmits)
	}
}

// delta returns what was counted between two snapshots.
func delta(before, after rpc.Stats) (d rpc.Stats) {
	d.Calls = after.Calls - before.Calls
	d.OctetsRead = after.OctetsRead - before.OctetsRead
	d.OctetsWritten = after.OctetsWritten - before.OctetsWritten
	d.OctetsInline = after.OctetsInline - before.OctetsInline
	d.Credits = after.Credits
	return d
}
