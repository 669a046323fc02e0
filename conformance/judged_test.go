package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// judgedClean fails for every rule that a recording breaks.
func judgedClean(t *testing.T, file string) {
	t.Helper()
	f := must(os.Open(file))(t)
	defer f.Close()
	r := must(judge.File(f, nil))(t)
	for _, v := range r.Violations {
		t.Errorf("%s: %v", v.Rule.Text, v)
	}
	if len(r.Connections) == 0 {
		t.Error("no connection in it")
	}
	for _, c := range r.Connections {
		for _, u := range c.Unknown {
			t.Errorf("connection %d: %s", c.Info.ID, u)
		}
	}
}

// TestOwnJudged: the judge finds nothing wrong with what our engine sends: with the profile of RFC 5666, all
// 18 opcodes, commit logs. (NFS by RFC 8166: TestOwnTraffic, TestDemoCapture.)
func TestOwnJudged(t *testing.T) {
	t.Parallel()
	file := func(t *testing.T) string { return filepath.Join(t.TempDir(), "own.pcapng") }
	t.Run("rfc5666", func(t *testing.T) {
		for _, cfg := range []transport.Config{
			{RFC5666: &transport.RFC5666{}},
			{RFC5666: &transport.RFC5666{}, InlineSend: 1024, InlineRecv: 1024},
		} {
			name := file(t)
			record(t, name, cfg)
			judgedClean(t, name)
		}
		name := file(t)
		record(t, name, transport.Config{RFC5666: &transport.RFC5666{PeerAlign: 32}})
		judgedClean(t, name)
		unpaddedWhole(t, name)
	})
	t.Run("opcodes", func(t *testing.T) {
		for _, markers := range []bool{false, true} {
			name := file(t)
			sayAllOpcodes(t, name, markers)
			judgedClean(t, name)
		}
	})
	for _, o := range []commitlog.Options{{Mode: commitlog.WAL}, {Mode: commitlog.Strict}} {
		t.Run("log "+o.Mode.String(), func(t *testing.T) {
			name := file(t)
			recordLog(t, name, &o)
			judgedClean(t, name)
		})
	}
}

// unpaddedWhole: the message of every RDMA_MSGP in a recording of NFSv3 is decoded.
func unpaddedWhole(t *testing.T, file string) {
	t.Helper()
	f := must(os.Open(file))(t)
	defer f.Close()
	calls, replies := 0, 0
	for ev, err := range decode.Events(f, nil) {
		check(t, err)
		if ev.Header == nil || ev.Header.Type != rpcrdma.MsgTypeMsgP {
			continue
		}
		if ev.Err != nil || !ev.RPC.Whole || ev.RPC.Message == nil {
			t.Errorf("not whole: %v", ev)
		}
		if ev.RPC.IsReply {
			replies++
		} else {
			calls++
		}
	}
	if calls == 0 || replies == 0 {
		t.Errorf("%d calls and %d replies were padded", calls, replies)
	}
}

// recordLog records a session of a commit log: records of all sizes, several at once, more than the ring holds.
func recordLog(t *testing.T, file string, o *commitlog.Options) {
	t.Helper()
	ctx := t.Context()
	size := must(commitlog.MemorySize(8192))(t)
	memory := durable(make([]byte, size))
	check(t, commitlog.Create(memory, o))
	log := must(commitlog.Open(memory))(t)
	w := must(capture.Create(file))(t)
	a, b := rdmaptest.Pipe()
	served := make(chan error, 1)
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
	check(t, c.Handshake(ctx))
	check(t, p.Attach(ctx, c))
	for i := range 40 {
		var group []*commitlog.Pending
		for j := range 3 {
			e := must(p.Begin(bytes.Repeat([]byte{byte(i)}, (i*37+j*311)%700)))(t)
			group = append(group, e)
		}
		for _, e := range group {
			_, err := e.Wait(ctx)
			check(t, err)
			r := must(log.Next(ctx))(t)
			check(t, log.Release(r.Seq))
		}
	}
	p.Close()
	check(t, c.Close())
	<-served // that the connection has ended
	check(t, log.Close(ctx))
	check(t, w.Close())
}
