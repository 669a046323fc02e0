package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/status"
	"github.com/stag-rdma/stag/transport/push"
)

// TestLogGiveUp: a server whose push log is damaged names the file and the remedy, on standard
// error too, and log push shows what would be lost and gives the log up.
func TestLogGiveUp(t *testing.T) {
	export, logs := t.TempDir(), filepath.Join(t.TempDir(), "logs")
	s := startPush(t, export, logs)
	c := pushClient(t, s, push.NewSecret())
	n, err := c.Create(t.Context(), c.Root(), "file", 0o644, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenPush(t.Context(), n, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := s.stop(context.Background()); err != nil { // before Close: the lease stays
		t.Fatal(err)
	}
	c.Close() //nolint:errcheck // there is nobody to be told
	file := filepath.Join(logs, "mine.log")
	if err := os.Truncate(file, 20000); err != nil {
		t.Fatal(err)
	}
	problems := func() (text string, st *status.Report) {
		t.Helper()
		s := startPush(t, export, logs)
		var b strings.Builder
		s.push.printProblems(&b)
		st = s.report(s.push.pw)
		if err := s.stop(context.Background()); err != nil {
			t.Error(err)
		}
		return b.String(), st
	}
	remedy := "nfsdemo log push " + logs + " --give-up mine"
	text, st := problems()
	if !strings.HasPrefix(text, "nfsdemo: "+file+": pushwrite: the log cannot be read: ") || !strings.Contains(text, remedy) || strings.Count(text, "\n") != 1 {
		t.Error(text)
	}
	if b, err := json.Marshal(st.Problems); err != nil || len(st.Problems) != 1 || st.Problems[0].File != file || !strings.Contains(string(b), remedy) {
		t.Errorf("%s %v", b, err)
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{logs}, 1, "wrong size"},
		{[]string{logs, "--give-up", "mine"}, 0, "the log mine would be removed, and this would be lost: 0 records, 0 octets of data, and everything that cannot be read; use --force to remove it"},
		{[]string{logs, "--give-up", "yours"}, 1, "no log with this name"},
		{[]string{logs, "--give-up", "yours", "--force"}, 1, "no log with this name"},
		{[]string{logs, "--give-up", ""}, 2, "wants the name of a log"},
		{[]string{logs, "--give-up", "mine", "--discard", "1"}, 2, "use only one of them"},
		{[]string{logs, "--give-up", "mine", "--force"}, 0, "removed the log mine; lost: 0 records, 0 octets of data, and everything that cannot be read"},
		{[]string{logs}, 0, ""},
	} {
		r := command(t.Context(), "", append([]string{"log", "push"}, tt.args...)...)
		if r.status != tt.status || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%v: %d, %s; want %d, %q", tt.args, r.status, r.stderr, tt.status, tt.want)
		}
	}
	if text, st := problems(); text != "" || len(st.Problems) != 0 {
		t.Errorf("%s %+v", text, st.Problems)
	}
}
