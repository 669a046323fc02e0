package cli_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

// TestCgroupMemory: the least limit counts of the process's cgroup and those above it.
func TestCgroupMemory(t *testing.T) {
	for name, x := range map[string]struct {
		files string // name=content
		want  int64
	}{
		"none":             {"", 0},
		"unlimited":        {"proc/self/cgroup=0::/a sys/fs/cgroup/a/memory.max=max", 0},
		"own":              {"proc/self/cgroup=0::/a/b sys/fs/cgroup/a/b/memory.max=268435456 sys/fs/cgroup/a/memory.max=max", 256 << 20},
		"that above":       {"proc/self/cgroup=0::/a/b sys/fs/cgroup/a/b/memory.max=9000 sys/fs/cgroup/a/memory.max=8000", 8000},
		"container":        {"proc/self/cgroup=0::/ sys/fs/cgroup/memory.max=268435456", 256 << 20},
		"path of the host": {"proc/self/cgroup=0::/../../x sys/fs/cgroup/memory.max=4096", 4096},
		"version 1":        {"proc/self/cgroup=4:cpu,memory:/a sys/fs/cgroup/memory/a/memory.limit_in_bytes=5000", 5000},
		"version 1, none":  {"proc/self/cgroup=4:memory:/ sys/fs/cgroup/memory/memory.limit_in_bytes=9223372036854771712", 0},
		"both":             {"proc/self/cgroup=4:memory:/a\\n0::/a sys/fs/cgroup/memory/a/memory.limit_in_bytes=5000 sys/fs/cgroup/a/memory.max=6000", 5000},
		"nonsense":         {"proc/self/cgroup=0::/ sys/fs/cgroup/memory.max=-7", 0},
	} {
		root := fstest.MapFS{}
		for f := range strings.FieldsSeq(x.files) {
			file, content, _ := strings.Cut(f, "=")
			root[file] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(content, `\n`, "\n") + "\n")}
		}
		if got := cli.CgroupMemory(root); got != x.want {
			t.Errorf("%s: %d octets, want %d", name, got, x.want)
		}
		for _, memory := range []int64{x.want/10*6 + 1, x.want / 10 * 6} {
			much := x.want > 2<<20 && memory > x.want/10*6
			if got := cli.CgroupWarning(root, memory); memory > 2<<20 && (got != "") != much {
				t.Errorf("%s, %d octets for calls: %q", name, memory, got)
			}
		}
	}
}
