package drive

import (
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sink is a Source that keeps nothing.
type sink struct {
	room [512]byte
	got  int
}

func (s *sink) Room(bool) ([]byte, [][]byte) { return s.room[:], nil }
func (s *sink) Got(n int)                    { s.got += n }

// pair returns the two ends of a TCP connection.
func pair(t *testing.T) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// polls is a link that polls, and its peer.
type polls struct {
	*tcpLink
	peer *net.TCPConn
	done chan error
}

func newPolls(t *testing.T, limit time.Duration) *polls {
	t.Helper()
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("with one processor nobody polls")
	}
	a, b := pair(t)
	return &polls{NewLink(b, limit).(*tcpLink), a, make(chan error, 1)}
}

// read begins to read.
func (p *polls) read() {
	go func() {
		_, err := p.Read(new(sink), true, true)
		p.done <- err
	}()
}

// call makes the peer send a little, which ends a read.
func (p *polls) call(t *testing.T) {
	t.Helper()
	if _, err := p.peer.Write([]byte("news")); err != nil {
		t.Fatal(err)
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
}

func (p *polls) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("it continues to wait")
		return nil
	}
}

// poll begins a read that polls: the wait before it was short.
func (p *polls) poll(t *testing.T) {
	t.Helper()
	for {
		if _, err := p.peer.Write([]byte("news")); err != nil {
			t.Fatal(err)
		}
		p.read()
		if err := p.end(t); err != nil {
			t.Fatal(err)
		}
		before := busy.polls.Load()
		busy.until.Store(0)
		p.read()
		for end := time.Now().Add(time.Second); time.Now().Before(end); runtime.Gosched() {
			if busy.polls.Load() > before {
				return
			}
		}
		p.call(t)
	}
}

// Little input on a connection that has polled, and on which nobody waits any more, is noticed.
func TestBusyPollIdle(t *testing.T) {
	p := newPolls(t, time.Minute)
	noticed := make(chan struct{}, 1)
	for range 3 {
		p.poll(t)
		p.call(t)
		p.Watch(func() { noticed <- struct{}{} })
		if _, err := p.peer.Write([]byte("more")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-noticed:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody was told")
		}
		p.read()
		if err := p.end(t); err != nil {
			t.Fatal(err)
		}
	}
	p.Forget()
}

// A reader that has polled in vain sleeps, and is woken.
func TestBusyPollSleeps(t *testing.T) {
	p := newPolls(t, 2*time.Millisecond)
	for range 5 {
		p.poll(t)
		for busy.n.Load() != 0 {
			time.Sleep(time.Millisecond)
		}
		p.call(t)
	}
}

// A reader that polls stops when it is interrupted, and when the stream ends.
func TestBusyPollInterrupted(t *testing.T) {
	for _, tt := range []struct {
		end  func(p *polls)
		want func(error) bool
	}{
		{func(p *polls) { p.Interrupt() }, func(err error) bool { return errors.Is(err, ErrInterrupted) }},
		{func(p *polls) { p.peer.Close() }, func(err error) bool { return err != nil && !errors.Is(err, ErrInterrupted) }},
	} {
		p := newPolls(t, time.Hour)
		p.poll(t)
		tt.end(p)
		if err := p.end(t); !tt.want(err) {
			t.Error(err)
		}
		if p.Resume(); p.Interrupted() {
			t.Error("interrupted after Resume")
		}
	}
}

// A wait begins with polling only if the wait before it ended within the limit.
func TestBusyPollShort(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("with one processor nobody polls")
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
		if got, _ := p.read(fds[0], make([]byte, 8), new(atomic.Bool)); got != n {
			t.Fatalf("%d octets", got)
		}
	}
	wait := func(limit, took time.Duration) (polled bool) {
		t.Helper()
		busy.until.Store(0)
		before := busy.polls.Load()
		p.begin(limit, true)
		read(0)
		p.since = p.since.Add(-took)
		if _, err := unix.Write(fds[1], []byte("x")); err != nil {
			t.Fatal(err)
		}
		p.limit = time.Hour
		read(1)
		return busy.polls.Load() != before
	}
	for i, want := range []bool{false, true, true, false, true} {
		took := time.Duration(0)
		if i == 2 {
			took = 2 * time.Hour
		}
		if got := wait(time.Millisecond, took); got != want {
			t.Errorf("wait %d: polled: %v", i, got)
		}
	}
}

// One processor is left free, and after a crowd nobody polls for a while.
func TestBusyPollCrowd(t *testing.T) {
	busy.until.Store(0)
	procs := max(runtime.GOMAXPROCS(0), 2) // with one processor nobody polls
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	room := procs - 1
	now := time.Now()
	for range room {
		if !enterBusy(now) {
			t.Fatal("no room")
		}
	}
	if enterBusy(now) {
		t.Fatal("too many")
	}
	busy.n.Add(int32(-room))
	if enterBusy(now) || enterBusy(now.Add(crowdPause-1)) {
		t.Error("no pause after a crowd")
	}
	if !enterBusy(now.Add(crowdPause)) {
		t.Error("the pause does not end")
	}
	busy.n.Add(-1)
}
