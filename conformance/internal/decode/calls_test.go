package decode

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/chunks"
)

// TestCallTable: replies that never come do not make the table grow.
func TestCallTable(t *testing.T) {
	var tab callTable
	mem := &budget{left: 100}
	tab.add(&call{xid: 0}, 8, mem)
	for i := range uint32(10000) {
		c := &call{xid: i + 1}
		c.offered(&chunks.Lists{Read: []chunks.ReadSegment{{Segment: chunks.Segment{Handle: 1, Length: 4}}}})
		tab.add(c, 8, mem)
		if i%3 > 0 {
			tab.remove(c, mem)
		}
		tab.remove(c, mem)
	}
	for i := range uint32(100) {
		tab.add(&call{xid: i}, 8, mem)
	}
	if len(tab.byXID) != 8 || len(tab.order) > 100 || len(tab.mem) != 0 {
		t.Errorf("%d calls, %d in order, %d tags", len(tab.byXID), len(tab.order), len(tab.mem))
	}
	for _, c := range tab.order {
		if c.xid < 92 && tab.byXID[c.xid] == c {
			t.Error(fmt.Sprint("the oldest did not go first: ", c.xid))
		}
	}
}
