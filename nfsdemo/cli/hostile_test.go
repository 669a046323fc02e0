package cli_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/cli"
)

// TestHostileServers: whatever a server lists, cp -r, ls -R and rm -r end with a line that says why, in bounded
// memory.
func TestHostileServers(t *testing.T) {
	files := func(n int, dirs bool) func(c uint64) []backendtest.Entry {
		return func(c uint64) (all []backendtest.Entry) {
			for k := c + 1; k <= c+uint64(n); k++ {
				all = append(all, backendtest.Entry{Name: fmt.Sprint(k), Cookie: k, Dir: dirs})
			}
			return all
		}
	}
	for _, x := range []struct {
		name   string
		server backendtest.Liar
		flags  []string
		want   string
	}{
		{"a loop", backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) {
			return []backendtest.Entry{{Name: "a", Cookie: 1 + c%2}}, false
		}}, nil, "runs in a circle"},
		{
			"an endless directory",
			backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) { return files(200, false)(c), false }},
			[]string{"--max-names", "500"},
			"--max-names",
		},
		{"an endless path", backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) {
			return []backendtest.Entry{{Name: strings.Repeat("long", 50), Cookie: 1, Dir: true}}, true
		}}, nil, "4096 octets"},
		{
			"wide and nested",
			backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) { return files(25, true)(c), c > 1000 }},
			[]string{"--max-names", "1000"},
			"the server may",
		},
		{
			"a wide directory on each level",
			backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) { return files(225, true)(c), true }},
			[]string{"--max-names", "10000000"},
			"the server may",
		},
		{"strays", backendtest.Liar{Strays: true, Page: func(uint64) ([]backendtest.Entry, bool) { return nil, true }}, []string{"--call-timeout", "300ms"}, "answer no call"},
	} {
		for _, rdma := range []bool{false, true} {
			if rdma && len(x.flags) > 1 && x.flags[0] == "--max-names" {
				continue // the client is the same: once is enough for the slow ones
			}
			if backendtest.Race && x.name == "a wide directory on each level" {
				continue // two million names
			}
			t.Run(fmt.Sprintf("%s rdma=%v", x.name, rdma), func(t *testing.T) {
				url := x.server.Listen(t, rdma) + "/dir"
				for _, args := range [][]string{{"cp", "-r", url, t.TempDir()}, {"ls", "-R", url}, {"rm", "-r", url}} {
					var out, errs bytes.Buffer
					status := 0
					backendtest.Live(t, 256<<20, func() {
						status = cli.Main(append(args[:2:2], append(x.flags, args[2:]...)...), strings.NewReader(""), &out, &errs)
					})
					line := errs.String()
					if status != 1 || !strings.Contains(line, x.want) || strings.Count(line, "\n") != 1 || len(line) > 1500 || !utf8.ValidString(line) {
						t.Errorf("%s: status %d, %d octets of output, errors %.2000q; want %q", args[0], status, out.Len(), line, x.want)
					}
				}
			})
		}
	}
}
