package copies_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/copies"
)

func TestOff(t *testing.T) {
	copies.Start()
	if got := copies.Stop(); got != 0 {
		t.Errorf("%d", got)
	}
	copies.Copy(make([]byte, 4), make([]byte, 4))
	if got := copies.Stop(); got != 0 {
		t.Errorf("%d octets counted while off", got)
	}
}
