package copies

import "testing"

func TestOff(t *testing.T) {
	Start()
	if got := Stop(); got != 0 {
		t.Errorf("%d", got)
	}
	Copy(make([]byte, 4), make([]byte, 4))
	if got := Stop(); got != 0 {
		t.Errorf("%d octets counted while off", got)
	}
}
