package copies

import (
	"fmt"
	"testing"
)

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

func Example() {
	Start()
	n := Copy(make([]byte, 3), []byte("hello"))
	fmt.Println(n, Stop())
	// Output: 3 3
}
