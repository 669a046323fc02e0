package decode_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
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
		info := new(decode.CommitInfo)
		for ev, err := range decode.Events(bytes.NewReader(recordLog(t, mode, n)), nil) {
			must(t, err)
			if ev.Err != nil {
				t.Error(ev)
			}
			m := ev.Commit
			if m == nil {
				continue
			}
			info = ev.Conn.Commit
			if m.Kind != decode.CommitHead && m.Kind != decode.CommitDone { // they come when they like
				kinds = append(kinds, m.Kind.String())
			}
			switch m.Kind {
			case decode.CommitFlush, decode.CommitVerify, decode.CommitTail, decode.CommitFlushTail:
				asked = append(asked, m.Kind.String())
			case decode.CommitDone:
				done = append(done, m.Request.String())
			default:
			}
			if m.Kind == decode.CommitDone && (m.Request == decode.CommitOther || m.RequestFrame >= ev.Frame) {
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
		if len(seqs) != n || seqs[0] != 1 || seqs[n-1] != n || info.Answer == nil || info.Producer != decode.FromOpener {
			t.Errorf("%v: records %d, %+v", mode, seqs, info)
		}
	}
}

// TestCommitUnannounced: a session whose Answer travelled elsewhere shows by its operations.
func TestCommitUnannounced(t *testing.T) {
	var kinds []decode.CommitKind
	answer := false
	c := decode.NewConn(nil, func(ev *decode.Event) {
		if ev.Commit != nil {
			kinds = append(kinds, ev.Commit.Kind)
			answer = answer || ev.Conn.Commit.Answer != nil
		}
	})
	for ev, err := range decode.Events(bytes.NewReader(recordLog(t, commitlog.WAL, 3)), nil) {
		must(t, err)
		if ev.Commit != nil && ev.Commit.Kind == decode.CommitAnswer {
			continue
		}
		c.Octets(ev.Dir, ev.Raw, decode.Stamp{Frame: ev.Frame})
	}
	if got := fmt.Sprint(kinds[:2]); got != "[tail done]" || answer || !slices.Contains(kinds, decode.CommitVerify) {
		t.Errorf("%v", kinds)
	}
}
