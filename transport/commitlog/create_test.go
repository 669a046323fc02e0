package commitlog_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// TestCreateRefuses: what Open could not open is not created, and what the memory holds stays.
func TestCreateRefuses(t *testing.T) {
	size := must(commitlog.MemorySize(1 << 12))(t)
	for name, tt := range map[string]struct {
		size int
		o    commitlog.Options
		kind error
		text string
	}{
		"mode":         {size, commitlog.Options{Mode: 9}, setting.ErrRange, "commitlog: setting out of range: Mode is 9, want 1 to 2"},
		"no room":      {100, commitlog.Options{}, commitlog.ErrSize, "a ring of 0 octets: wrong size (a capacity is a multiple of 64 octets, at least 256)"},
		"no multiple":  {size + 1, commitlog.Options{}, commitlog.ErrSize, "a ring of 4097 octets: wrong size"},
		"one too many": {size - 1, commitlog.Options{}, commitlog.ErrSize, "a ring of 4095 octets: wrong size"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := region.Bytes(bytes.Repeat([]byte("precious"), tt.size/8+1)[:tt.size])
			before := bytes.Clone(mem)
			err := commitlog.Create(mem, &tt.o)
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %q", err, tt.text)
			}
			if !bytes.Equal(mem, before) {
				t.Error("the memory was changed")
			}
		})
	}
}
