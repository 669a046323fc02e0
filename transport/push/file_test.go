package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/xdr"
)

// nfsFile is a file at a server that may restart, and then forgets what was not committed.
type nfsFile struct {
	mu       sync.Mutex
	data     []byte // as it is seen
	stable   []byte // as it was committed
	forgot   bool   // since the last commit
	level    commitlog.Level
	restart  func() bool // whether the server restarts before this call
	failNext error
}

func (f *nfsFile) step() error {
	if f.restart != nil && f.restart() {
		f.forgot = f.forgot || !bytes.Equal(f.data, f.stable)
		f.data = bytes.Clone(f.stable)
	}
	err := f.failNext
	f.failNext = nil
	return err
}

func (f *nfsFile) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *nfsFile) WriteAt(_ context.Context, p []byte, off int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return err
	}
	f.data = append(f.data, make([]byte, max(0, int(off)+len(p)-len(f.data)))...)
	copy(f.data[off:], p)
	return nil
}

func (f *nfsFile) Commit(context.Context) (commitlog.Level, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return 0, err
	}
	if f.forgot {
		f.forgot = false
		return 0, ErrRewrite
	}
	f.stable = bytes.Clone(f.data)
	return f.level, nil
}

// records reads the file as a consumer does.
func records(t *testing.T, b []byte) (got []string) {
	t.Helper()
	err := ReadFile(bytes.NewReader(b), func(r *commitlog.Record) error {
		if r.Seq != uint64(len(got)+1) {
			t.Errorf("record %d, want %d", r.Seq, len(got)+1)
		}
		got = append(got, string(r.Payload))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The last rung: a server that has another program alone. What comes back from Append is
// in the file; a second Dial continues behind it.
func TestFile(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: transport.HandlerFunc(func(_ context.Context, _ *transport.Request, resp *transport.Response) {
		resp.Stat = xdr.ProgUnavail
	})}
	over := make(chan struct{})
	go func() { _ = s.Serve(l); close(over) }()
	defer func() { s.Close(); <-over }()
	rpc := redialer(t, func() string { return l.Addr().String() })
	if _, err := Dial(t.Context(), rpc, "log", &Config{Keep: func(Secret) error { return nil }}); !errors.Is(err, ErrNoProgram) {
		t.Error(err)
	}
	for _, level := range []commitlog.Level{commitlog.Placed, commitlog.Persistent} {
		f := &nfsFile{level: level}
		var want []string
		for i, c := range []transport.Caller{rpc, nil, rpc} {
			p, err := Dial(t.Context(), c, "log", &Config{Keep: func(Secret) error { return nil }, File: f})
			if err != nil {
				t.Fatal(err)
			}
			if p.Rung() != InFile {
				t.Error(p.Rung())
			}
			more := []string{fmt.Sprint("one ", i), "", string(make([]byte, 70_000))}
			appended(t, p, level, uint64(len(want)+1), more...)
			want = append(want, more...)
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if got := records(t, f.stable); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%.200q", got)
			}
		}
	}
	p, err := Dial(t.Context(), nil, "log", &Config{File: &nfsFile{data: []byte(string(make([]byte, 40)) + "x")}})
	if err != nil {
		t.Fatal("zeros are an empty file:", err)
	}
	_ = p.Close(t.Context())
	if _, err := Dial(t.Context(), nil, "log", &Config{File: &nfsFile{data: bytes.Repeat([]byte("precious"), 10)}}); !errors.Is(err, ErrFile) {
		t.Error("a file of somebody else:", err)
	}
}

// The server of the file restarts at random, and the client crashes at random and leaves
// any part of what was not committed: acknowledged is a subset of recovered, that is one
// of what was sent, in order, and never does a record come back that a client was told is
// not there.
func TestFileCrash(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	for range 20 {
		f := &nfsFile{level: commitlog.Persistent, restart: func() bool { return rnd.IntN(6) == 0 }}
		var history []string // what has been told to be there
		for life := range 6 {
			s, err := Dial(t.Context(), nil, "log", &Config{File: f, MinDelay: 1})
			if err != nil {
				t.Fatal(err)
			}
			before := records(t, f.stable)
			for i, r := range before[:min(len(before), len(history))] {
				if r != history[i] {
					t.Fatalf("record %d is %q, was %q", i, r, history[i])
				}
			}
			if len(before) < len(history) {
				t.Fatalf("%d records, %d were there", len(before), len(history))
			}
			history = before
			for i := range rnd.IntN(5) {
				record := fmt.Sprintf("%d/%d", life, i)
				if _, err := s.Append(t.Context(), []byte(record)); err != nil {
					t.Fatal(err)
				}
				history = append(history, record)
			}
			last := fileState{}
			if st, err := readFile(bytes.NewReader(f.stable), nil); err != nil {
				t.Fatal(err)
			} else {
				last = *st
			}
			_ = s.Close(context.Background())
			// A group that was not acknowledged, any of its octets written.
			f.mu.Lock()
			group := f.stable[:last.end:last.end]
			for i := range 3 {
				group = appendFileRecord(group, &last.id, last.epoch, last.next+uint64(i), []byte("torn"))
			}
			for i := last.end; i < int64(len(group)); i += 24 {
				if rnd.IntN(3) == 0 {
					clear(group[i : i+24])
				}
			}
			f.data, f.stable, f.forgot = bytes.Clone(group), bytes.Clone(group), false
			f.mu.Unlock()
		}
	}
}

// A file has no ring, but who appends to it believes in one: where a record would cross its
// end, there is a gap.
func TestAfterRecord(t *testing.T) {
	for _, test := range []struct {
		at   uint64
		n    int
		want uint64
	}{
		{0, 0, 64},
		{0, 36, 64},
		{0, 37, 128},
		{fileRing - 64, 36, fileRing},
		{fileRing - 64, 37, fileRing + 128},
		{3*fileRing - 128, 200, 3*fileRing + 256},
	} {
		if got := afterRecord(test.at, test.n); got != test.want {
			t.Errorf("%d octets at %d: %d, want %d", test.n, test.at, got, test.want)
		}
	}
}

// Any octets: a file is read to its end, or refused.
func FuzzReadFile(f *testing.F) {
	st := newFileState()
	b := st.header()
	f.Add(b)
	b = appendFileEpoch(b, &st.id, 1, 1)
	b = appendFileRecord(b, &st.id, 1, 1, []byte("one"))
	b = appendFileRecord(b, &st.id, 1, 2, nil)
	b = appendFileEpoch(b, &st.id, 2, 3)
	f.Add(appendFileRecord(b, &st.id, 2, 3, make([]byte, 100)))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		err := ReadFile(bytes.NewReader(b), func(r *commitlog.Record) error {
			n += fileRecordLen + len(r.Payload)
			return nil
		})
		if n > len(b) || err != nil && !errors.Is(err, ErrFile) {
			t.Errorf("%d octets of %d, %v", n, len(b), err)
		}
	})
}
