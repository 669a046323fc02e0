package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// writeLog makes the file of a log with records.
func writeLog(t *testing.T, change func(b []byte), records ...string) string {
	t.Helper()
	size := must(commitlog.MemorySize(4096))(t)
	mem := make(region.Bytes, size)
	noErr(t, commitlog.Create(mem, nil))
	l := must(commitlog.Open(mem))(t)
	p := commitlog.NewProducer(nil)
	noErr(t, l.Local(t.Context(), p))
	for _, r := range records {
		must(p.Append(t.Context(), []byte(r)))(t)
	}
	p.Close()
	noErr(t, l.Close(t.Context()))
	if change != nil {
		change(mem)
	}
	path := filepath.Join(t.TempDir(), "log")
	noErr(t, os.WriteFile(path, mem, 0o600))
	return path
}

func TestLog(t *testing.T) {
	good := writeLog(t, nil, "first", "\x00\xff", strings.Repeat("long ", 20))
	bad := writeLog(t, func(b []byte) { b[20480+64+28] ^= 1 }, "first", "second", "third")
	version := writeLog(t, func(b []byte) { b[11] = 7 })
	tail := writeLog(t, func(b []byte) { b[8192+7] = 7 }, "first", "second")
	header := writeLog(t, func(b []byte) { b[4096+90] ^= 1 }) // of the only session, which has no record
	head := writeLog(t, func(b []byte) { b[16384] ^= 1 })
	short := writeLog(t, nil)
	noErr(t, os.Truncate(short, 20500))
	for _, tt := range []struct {
		args   []string
		status int
		out    []string
		err    string
	}{
		{[]string{"verify", good}, 0, []string{"version 2, wal, ring of 4096, epoch 1", "tail 256", "records: 3 good: 1 to 3, next 4"}, ""},
		{[]string{"dump", good}, 0, []string{`1      1            0        5  "first"`, "2  00ff", `100  "long long long long long long lo"...`}, ""},
		{[]string{"dump", "--json", good}, 0, []string{`{"seq":1,"epoch":1,"position":0,"length":5,"payload":"Zmlyc3Q="}`, `"records":3}`}, ""},
		{[]string{"verify", bad}, 1, []string{"records: 1 good: 1 to 1\n"}, "record 2 at position 64 is poisoned: wrong checksum"},
		{[]string{"verify", "--json", bad}, 1, []string{`"poison":{"position":64,"seq":2,"reason":"wrong checksum"}`}, "poisoned"},
		{[]string{"verify", version}, 1, nil, "version at octet 8: unknown version: got 0x7, want 0x2 (use a program of that version)"},
		{[]string{"verify", tail}, 1, []string{"(tail word 7)", "records: 2 good: 1 to 2, next 3"}, "its tail word, 8 octets at octet 8192, is damaged: 0x7 is not a multiple of 64 up to 4096. Restore"},
		{[]string{"verify", tail}, 1, nil, "nfsdemo log mend " + tail + " --force"},
		{[]string{"dump", tail}, 1, []string{`"first"`, `"second"`}, "is damaged"},
		{[]string{"mend", good}, 1, nil, "nothing to mend"},
		{[]string{"mend", bad}, 0, []string{"         3      1          128        5  \"third\"\n", "records: 1 good: 1 to 1\n"}, "the log would end at 64, and 1 good record behind the damage would be lost; use --force"},
		{[]string{"mend", "--json", bad}, 0, []string{`{"seq":3,"epoch":1,"position":128,"length":5,"payload":"dGhpcmQ="}`, `"seq":2,"reason":"wrong checksum"`}, ""},
		{[]string{"verify", bad}, 1, nil, "nfsdemo log mend shows"},
		{[]string{"mend", bad, "--force"}, 0, []string{`"third"`}, "the log now ends at 64"},
		{[]string{"verify", bad}, 0, []string{"epoch 2\n", "records: 1 good: 1 to 1, next 2"}, ""},
		{[]string{"mend", version, "--force"}, 1, nil, "unknown version"},
		{[]string{"mend", tail}, 0, []string{"records: 2 good"}, "the log would end at 128, and acknowledged records after it, if any, would be lost; use --force to cut it off there"},
		{[]string{"verify", tail}, 1, nil, "is damaged"},
		{[]string{"mend", tail, "--force"}, 0, nil, "the log now ends at 128"},
		{[]string{"verify", tail}, 0, []string{"tail 128 (tail word 128)", "records: 2 good: 1 to 2, next 3"}, ""},
		{[]string{"verify", header}, 1, []string{"epoch 0\n", "records: empty, next 1"}, "one of its two headers is damaged: commitlog: header checksum at octet 4284: wrong checksum"},
		{[]string{"verify", "--json", head}, 1, []string{`"bad_head":"head checksum"`}, "one of its two head slots is damaged"},
		{[]string{"mend", good + "x"}, 1, nil, "no such file"},
		{[]string{"verify", short}, 1, nil, "wrong size"},
		{[]string{"verify", "/dev/null"}, 1, nil, "wrong size"},
		{[]string{"verify"}, 2, nil, "one file"},
		{[]string{"verify", good + "x"}, 1, nil, "no such file"},
	} {
		r := command(t.Context(), "", append([]string{"log"}, tt.args...)...)
		if r.status != tt.status || !strings.Contains(r.stderr, tt.err) {
			t.Errorf("%v: status %d, %s", tt.args, r.status, r.stderr)
		}
		for _, want := range tt.out {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%v: no %q in\n%s", tt.args, want, r.stdout)
			}
		}
	}
}
