package reading

import (
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
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

// A wait is delayed once, after little input.
func TestYieldAgain(t *testing.T) {
	yields := 0
	y := yield{sched: func() { yields++ }, pause: new(yieldPause)}
	var got []bool
	for _, octets := range []uint64{0, 1, 1, 1 + yieldMost, 2 + 2*yieldMost, 3 + 2*yieldMost} {
		got = append(got, y.again(octets))
	}
	if want := []bool{false, true, false, true, false, true}; !slices.Equal(got, want) || yields != 3 {
		t.Errorf("%v, %d yields, want %v", got, yields, want)
	}
}

// After a wait for somebody who computes, no connection delays its wait for a while.
func TestYieldPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p yieldPause
		others := yieldLong
		sched := func() { time.Sleep(others) }
		a, b := yield{sched: sched, pause: &p}, yield{sched: sched, pause: &p}
		octets := uint64(0)
		look := func(y *yield) bool { octets++; return y.again(octets) }
		if !look(&a) || !look(&b) || !look(&a) {
			t.Error("only peers ran, but the next wait was not delayed")
		}
		others++
		if !look(&a) || look(&a) || look(&b) {
			t.Error("waits were delayed more than once for somebody who computes")
		}
		time.Sleep(yieldRest - 1)
		if look(&b) {
			t.Error("a wait was delayed again too early")
		}
		time.Sleep(time.Nanosecond)
		if !look(&b) {
			t.Error("no wait was delayed after the pause")
		}
	})
}

// Input that arrives while others run is read before the wait. A read that does not wait looks only once.
func TestYieldReads(t *testing.T) {
	for _, wait := range []bool{true, false} {
		a, b := pair(t)
		l := NewTCP(b)
		l.octets = yieldMost
		l.yield = yield{pause: new(yieldPause), sched: func() {
			if _, err := a.Write(make([]byte, 100)); err != nil {
				t.Error(err)
			}
			// On the loopback interface, what was written has arrived when the write returns.
			if err := b.SetReadDeadline(time.Now().Add(-time.Second)); err != nil { // it need not wait
				t.Error(err)
			}
		}}
		n, err := l.Read(new(sink), wait)
		if want := map[bool]int{true: 100}[wait]; n != want || err != nil {
			t.Errorf("wait %v: %d octets, %v; want %d", wait, n, err, want)
		}
	}
}
