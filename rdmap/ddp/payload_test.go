package ddp_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

func TestMaxPayload(t *testing.T) {
	for _, tt := range []struct{ mulpdu, tagged, untagged int }{
		{1442, 1428, 1424}, // observed from Linux
		{1500, 1484, 1480},
		{64768, 64752, 64748},
		{128, 112, 108},
		{0, 4, 4},
	} {
		if got := ddp.MaxPayload(true, tt.mulpdu); got != tt.tagged {
			t.Errorf("tagged %d: %d", tt.mulpdu, got)
		}
		if got := ddp.MaxPayload(false, tt.mulpdu); got != tt.untagged {
			t.Errorf("untagged %d: %d", tt.mulpdu, got)
		}
	}
}
