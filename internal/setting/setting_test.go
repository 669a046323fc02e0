package setting_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
)

// TestCheck: 0 is always in range, both ends of a range are, and the first setting beyond is named.
func TestCheck(t *testing.T) {
	for _, x := range []struct {
		s    setting.Setting
		want string
	}{
		{setting.Int("N", 0, 2, 4), ""},
		{setting.Int("N", 2, 2, 4), ""},
		{setting.Int("N", 4, 2, 4), ""},
		{setting.Int("N", 1, 2, 4), "N is 1, want 2 to 4, or 0 for the default"},
		{setting.Int("N", int64(5), 2, 4), "N is 5, want 2 to 4, or 0 for the default"},
		{setting.Int("N", uint64(3), 4, math.MaxInt64), "N is 3, want 4 or more, or 0 for the default"},
		{setting.Count("N", int64(1<<62)), ""},
		{setting.Count("N", -1), "N is -1, want more than 0, or 0 for the default"},
		{setting.Time("T", time.Hour), ""},
		{setting.Time("T", -time.Second), "T is -1s, want more than 0, or 0 for the default"},
	} {
		err := setting.Check(setting.Int("first", 1, 1, 1), x.s, setting.Int("last", 1, 1, 1))
		if x.want == "" && err == nil {
			continue
		}
		if got := fmt.Sprint(err); got != "setting out of range: "+x.want || !errors.Is(err, setting.ErrRange) {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
	if err := setting.Check(setting.Count("a", -1), setting.Count("b", -1)); err.Error() != "setting out of range: a is -1, want more than 0, or 0 for the default" {
		t.Error(err)
	}
}
