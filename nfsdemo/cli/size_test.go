package cli

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/internal/cliout"
)

func TestSize(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		n          int64
	}{
		{"0", "0", 0},
		{"-1", "-1", -1},
		{"1000", "1000", 1000},
		{"64k", "64K", 64 << 10},
		{"64M", "64M", 64 << 20},
		{"1G", "1G", 1 << 30},
		{"1GiB", "1G", 1 << 30},
		{"2T", "2T", 2 << 40},
		{"1024K", "1M", 1 << 20},
		{"3B", "3", 3},
		{"9223372036854775807", "9223372036854775807", math.MaxInt64},
	} {
		var s size
		if err := s.Set(tt.text); err != nil || int64(s) != tt.n || s.String() != tt.want {
			t.Errorf("%s: %d (%s), %v", tt.text, s, s.String(), err)
		}
	}
	for _, text := range []string{"", "M", "64X", "6 4M", "1.5G", "0x10", "9223372036854775808", "8388608T", "64MM", "-8388609T"} {
		var s size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is taken, as %d", text, s)
		}
	}
}

// TestVersion: what the Go tool records becomes one line.
func TestVersion(t *testing.T) {
	for _, tt := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "devel"},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"},
		}}, "devel 0123456789ab (modified)"},
	} {
		if got := cliout.VersionOf(&tt.info); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if r := command(t.Context(), "", "--version"); r.status != 0 || !strings.HasPrefix(r.stdout, "nfsdemo ") || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("%+v", r)
	}
}
