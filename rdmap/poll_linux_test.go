package rdmap

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"golang.org/x/sys/unix"
)

// polled is a client that calls a server in Serve by RDMA Read. One of the two polls for input.
type polled struct {
	c, s *Conn
	stag region.STag
	got  chan string // messages that have reached the client
}

func (p *polled) HandleRecv(_ *Conn, m *verbs.Message) { p.got <- string(m.Data) }
func (p *polled) HandleClose(*Conn, error)             {}

func newPolled(t *testing.T, client, server time.Duration) *polled {
	t.Helper()
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("with one processor nobody looks")
	}
	p := &polled{got: make(chan string, 1)}
	a, b := tcpPair(t)
	p.c, p.s = connect(t, a, b, &Config{BusyPoll: client, Handler: p}, &Config{BusyPoll: server})
	reg, err := p.s.Register(make([]byte, 64), region.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	p.stag = reg.STag()
	go p.s.Serve()
	return p
}

// call makes one round trip.
func (p *polled) call(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.c.Read(ctx, make([]byte, 8), p.stag, 0); err != nil {
		t.Fatal(err)
	}
}

// callUntilLooked makes calls until somebody has polled for input.
func (p *polled) callUntilLooked(t *testing.T) {
	t.Helper()
	for looks := lookers.looks.Load(); lookers.looks.Load() == looks; {
		lookers.until.Store(0)
		p.call(t)
	}
}

// await returns when somebody polls.
func await() {
	for lookers.n.Load() == 0 {
		lookers.until.Store(0)
		time.Sleep(time.Millisecond)
	}
}

// Unsolicited input on a connection that has polled for input, and on which nobody waits any more, is
// delivered, however little it is.
func TestBusyPollIdle(t *testing.T) {
	p := newPolled(t, time.Minute, 0)
	for range 3 {
		p.callUntilLooked(t)
		if err := p.s.Send(t.Context(), []byte("news")); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-p.got:
			if got != "news" {
				t.Fatal(got)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("nobody was told")
		}
		p.c.PostRecv(1)
	}
}

// A server that has polled in vain sleeps, and is woken.
func TestBusyPollSleeps(t *testing.T) {
	p := newPolled(t, 0, 2*time.Millisecond)
	for range 5 {
		p.callUntilLooked(t)
		for lookers.n.Load() != 0 {
			time.Sleep(time.Millisecond)
		}
		p.call(t)
	}
}

// A goroutine that polls for input stops when its context ends, and when the connection ends.
func TestBusyPollInterrupted(t *testing.T) {
	p := newPolled(t, time.Hour, 0)
	p.call(t)
	for _, end := range []func(cancel func()){
		func(cancel func()) { cancel() },
		func(func()) { p.s.Close() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		var w Waiter
		w.Reset()
		go func() { done <- p.c.Wait(ctx, &w) }()
		await()
		end(cancel)
		select {
		case err := <-done:
			if _, closed := errors.AsType[*verbs.ConnError](err); !closed && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it continues to poll")
		}
	}
}

// A wait begins with polling only if the wait before it ended within the limit.
func TestBusyPollShort(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("with one processor nobody looks")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	var p polling
	read := func(n int) {
		t.Helper()
		if got, _ := p.read(new(Conn), fds[0], make([]byte, 8)); got != n {
			t.Fatalf("%d octets", got)
		}
	}
	wait := func(limit, took time.Duration) (looked bool) {
		t.Helper()
		lookers.until.Store(0)
		before := lookers.looks.Load()
		p.begin(limit, true)
		read(0)
		p.since = p.since.Add(-took)
		if _, err := unix.Write(fds[1], []byte("x")); err != nil {
			t.Fatal(err)
		}
		p.limit = time.Hour
		read(1)
		return lookers.looks.Load() != before
	}
	for i, want := range []bool{false, true, true, false, true} {
		took := time.Duration(0)
		if i == 2 {
			took = 2 * time.Hour
		}
		if got := wait(time.Millisecond, took); got != want {
			t.Errorf("wait %d: looked: %v", i, got)
		}
	}
	if p.begin(time.Hour, false); p.limit != 0 {
		t.Error("a read that does not wait would poll")
	}
}

// One processor is left free, and after a crowd nobody polls for a while.
func TestBusyPollCrowd(t *testing.T) {
	lookers.until.Store(0)
	procs := max(runtime.GOMAXPROCS(0), 2) // with one processor nobody polls
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	room := procs - 1
	now := time.Now()
	for range room {
		if !enterLookers(now) {
			t.Fatal("no room")
		}
	}
	if enterLookers(now) {
		t.Fatal("too many")
	}
	lookers.n.Add(int32(-room))
	if enterLookers(now) || enterLookers(now.Add(crowdPause-1)) {
		t.Error("no pause after a crowd")
	}
	if !enterLookers(now.Add(crowdPause)) {
		t.Error("the pause does not end")
	}
	lookers.n.Add(-1)
}
