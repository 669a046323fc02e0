package decode

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/internal/rdmaptest"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/capture"
	mem "github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// recordLog records a session of a commit log that appends n records of 100 octets.
func recordLog(t *testing.T, mode commitlog.Mode, n int) []byte {
	t.Helper()
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		memory := make(mem.Bytes, 20480+1024)
		w, err := capture.NewWriter(&file)
		must(t, err, commitlog.Create(memory, &commitlog.Options{Mode: mode}))
		log, err := commitlog.Open(memory)
		must(t, err)
		a, b := rdmaptest.Pipe()
		served := make(chan error)
		go func() {
			c := rdmap.Server(b, commitlog.Config(nil))
			if err := c.Handshake(ctx); err != nil {
				served <- err
				return
			}
			served <- log.Serve(ctx, c)
		}()
		p := commitlog.NewProducer(&commitlog.ProducerOptions{Verify: true})
		c := rdmap.Client(w.TapClient(a), p.Config(nil))
		must(t, c.Handshake(ctx), p.Attach(ctx, c))
		for i := range n {
			e, err := p.Begin(bytes.Repeat([]byte{byte(i)}, 100))
			must(t, err)
			_, err = e.Wait(ctx)
			r, err2 := log.Next(ctx)
			must(t, err, err2, log.Release(r.Seq))
		}
		p.Close()
		must(t, c.Close())
		<-served
		must(t, log.Close(context.Background()), w.Close())
	})
	return file.Bytes()
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCommit: what a session of a commit log does, step by step, including the filler at the end of the
// ring; and the same without the Answer, as far as it can be known.
func TestCommit(t *testing.T) {
	const n = 10 // of 128 octets each in a ring of 1024, less what the longest may take
	for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
		var kinds, asked, done []string
		var seqs []uint64
		fillers := 0
		info := new(CommitInfo)
		for ev, err := range Events(bytes.NewReader(recordLog(t, mode, n)), nil) {
			must(t, err)
			if ev.Err != nil {
				t.Error(ev)
			}
			m := ev.Commit
			if m == nil {
				continue
			}
			info = ev.Conn.Commit
			if m.Kind != CommitHead && m.Kind != CommitDone { // they come when they like
				kinds = append(kinds, m.Kind.String())
			}
			switch m.Kind {
			case CommitFlush, CommitVerify, CommitTail, CommitFlushTail:
				asked = append(asked, m.Kind.String())
			case CommitDone:
				done = append(done, m.Request.String())
			default:
			}
			if m.Kind == CommitDone && (m.Request == CommitOther || m.RequestFrame >= ev.Frame) {
				t.Errorf("answers nothing: %v", ev)
			}
			for _, r := range m.Records {
				if r.Filler {
					fillers++
				} else {
					seqs = append(seqs, r.Seq)
				}
				if !r.Salted || !r.SumOK || !r.Filler && r.Len != 100 {
					t.Errorf("%+v", r)
				}
			}
		}
		each := []string{"write", "flush", "verify", "tail"}
		if mode == commitlog.Strict {
			each = append(each, "flush tail")
		}
		want := []string{"answer"}
		for range n {
			want = append(want, each...)
		}
		if !slices.Equal(done, asked) {
			t.Errorf("%v: done %q", mode, done)
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("%v: %q", mode, kinds)
		}
		if len(seqs) != n || seqs[0] != 1 || seqs[n-1] != n || info.Answer == nil || info.Producer != FromOpener {
			t.Errorf("%v: records %d, %+v", mode, seqs, info)
		}
	}
}

// TestCommitUnannounced: a session whose Answer travelled elsewhere shows by its operations.
func TestCommitUnannounced(t *testing.T) {
	var kinds []CommitKind
	answer := false
	c := NewConn(nil, func(ev *Event) {
		if ev.Commit != nil {
			kinds = append(kinds, ev.Commit.Kind)
			answer = answer || ev.Conn.Commit.Answer != nil
		}
	})
	for ev, err := range Events(bytes.NewReader(recordLog(t, commitlog.WAL, 3)), nil) {
		must(t, err)
		if ev.Commit != nil && ev.Commit.Kind == CommitAnswer {
			continue
		}
		c.Octets(ev.Dir, ev.Raw, Stamp{Frame: ev.Frame})
	}
	if got := fmt.Sprint(kinds[:2]); got != "[tail done]" || answer || !slices.Contains(kinds, CommitVerify) {
		t.Errorf("%v", kinds)
	}
}

// TestRecordParser: records cut anywhere, and writes that do not continue each other.
func TestRecordParser(t *testing.T) {
	record := append(unhex(t, "00000005 00000002 0000000000000004 00000000000000c0 b2e736f3 68656c6c6f"), make([]byte, 31)...)
	filler := append(unhex(t, "80000040 00000002 0000000000000005 0000000000000100 2b7e7197"), make([]byte, 36)...)
	b := slices.Concat(record, record, filler)
	for cut := range len(b) {
		p := recordParser{epoch: 2, salt: 0xee6e64bd81f7bc7f, salted: true}
		var got []CommitRecord
		write := func(at int, b []byte) {
			ev := &Event{DDP: &DDP{Payload: b}}
			ev.DDP.TO = uint64(at)
			got = append(got, p.write(ev)...)
		}
		write(832, b[:cut])
		write(832+cut, b[cut:])
		if len(got) != 3 || !got[0].SumOK || !got[1].SumOK || !got[2].SumOK || !got[2].Filler || got[2].Len != 64 || got[2].Offset != 960 {
			t.Fatalf("cut at %d: %+v", cut, got)
		}
		got = nil
		write(64, b[:cut])
		write(128+cut, b[cut:]) // a gap
		if len(got) > 3 || cut%64 != 0 && len(got) > cut/64+1 {
			t.Fatalf("with a gap at %d: %+v", cut, got)
		}
	}
}
