package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/transport"
)

// TestIntents: /status shows what the journal does, and lists its failure among the problems.
// A server with /status and no log of pushed writes serves.
func TestIntents(t *testing.T) {
	s := started(t, &serviceConfig{
		exports: one(t.TempDir()), intents: filepath.Join(t.TempDir(), "journal"),
		tcp: "127.0.0.1:0", status: "127.0.0.1:0", config: new(transport.Config),
	})
	url := "nfs://" + addrOf(s.tcp) + s.path
	if r := command(t.Context(), "", "mkdir", url+"/d"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	if st := s.report(nil); st.Once == nil || st.Once.Records != 2 || st.Once.Replies != 1 || len(st.Problems) != 0 {
		t.Errorf("%+v", st.Once)
	}
	if err := s.once.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.report(nil); len(st.Problems) != 1 || st.Problems[0].Log != "intents" || st.Problems[0].Remedy == "" || !errors.Is(st.Once.Err, once.ErrClosed) {
		t.Errorf("%+v", st)
	}
	if r := command(t.Context(), "", "mkdir", url+"/e"); r.status != 1 {
		t.Errorf("a change without a journal: %+v", r)
	}
	if r := command(t.Context(), "", "ls", url); r.status != 0 || r.stdout != "d\n" {
		t.Errorf("%+v", r)
	}
}

// TestIntentsDamaged: a server whose journal has a damaged tail word says how to look at it.
func TestIntentsDamaged(t *testing.T) {
	dir := t.TempDir()
	cfg := &serviceConfig{exports: one(t.TempDir()), intents: dir, tcp: "127.0.0.1:0", config: new(transport.Config)}
	s, err := newService(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{7, 0, 0, 0, 0, 0, 0, 7}, 8192)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := newService(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "nfsdemo log verify shows") {
		t.Error(err)
	}
}
