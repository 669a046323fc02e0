package nfsclient

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// A log in a file of a server that restarts sometimes and forgets what was not committed:
// everything that was acknowledged is in the file, once, in order.
func TestLogFile(t *testing.T) {
	f := newFake()
	n := &Node{Path: "/export/log", FH: handleOf(f.put("log", nfs3.TypeReg, nil))}
	f.maxIO = 33 // short WRITEs
	calls := 0
	f.hook = func(proc nfs3.Proc, _ int) nfs3.Status {
		if calls++; proc == nfs3.ProcCommit && calls%5 == 0 {
			f.reboot()
		}
		return nfs3.OK
	}
	c := f.client(t, small)
	var want []string
	for life := range 3 {
		s, err := push.Dial(t.Context(), nil, "log", &push.Config{File: c.LogFile(n)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			text := fmt.Sprintf("record %d of life %d", i, life)
			r, err := s.Append(t.Context(), []byte(text))
			if err != nil || r.Level != commitlog.Persistent {
				t.Fatal(r, err)
			}
			want = append(want, text)
		}
		if s.Rung() != push.InFile {
			t.Error(s.Rung())
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	data := f.files[1].data
	i := 0
	err := push.ReadFile(bytes.NewReader(data), func(r *commitlog.Record) error {
		if i >= len(want) || string(r.Payload) != want[i] {
			t.Errorf("record %d: %q", i, r.Payload)
		}
		i++
		return nil
	})
	if err != nil || i != len(want) {
		t.Errorf("%d records of %d, %v", i, len(want), err)
	}
}

// A file that holds something else is left alone, and errors of the server are told.
func TestLogFileErrors(t *testing.T) {
	f := newFake()
	n := &Node{Path: "/export/x", FH: handleOf(f.put("x", nfs3.TypeReg, []byte("something else, and long enough to be seen")))}
	c := f.client(t, small)
	if _, err := push.Dial(t.Context(), nil, "log", &push.Config{File: c.LogFile(n)}); !errors.Is(err, push.ErrFile) {
		t.Error(err)
	}
	n.FH = handleOf(f.put("y", nfs3.TypeReg, nil))
	f.hook = func(proc nfs3.Proc, _ int) nfs3.Status {
		if proc == nfs3.ProcWrite {
			return nfs3.ErrNoSpc
		}
		return nfs3.OK
	}
	file := c.LogFile(n)
	if err := file.WriteAt(t.Context(), []byte("x"), 0); !errors.Is(err, nfs3.ErrNoSpc) {
		t.Error(err)
	}
}
