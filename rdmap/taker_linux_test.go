package rdmap

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A wait is delayed once, after little input.
func TestTakerAgain(t *testing.T) {
	yields := 0
	tk := taker{yield: func() { yields++ }, pause: new(takerPause)}
	var got []bool
	for _, octets := range []uint64{0, 1, 1, 1 + takerMost, 2 + 2*takerMost, 3 + 2*takerMost} {
		got = append(got, tk.again(octets))
	}
	if want := []bool{false, true, false, true, false, true}; !slices.Equal(got, want) || yields != 3 {
		t.Errorf("%v, %d yields, want %v", got, yields, want)
	}
}

// After a wait for somebody who computes, no connection delays its wait for a while.
func TestTakerPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p takerPause
		others := takerLong
		yield := func() { time.Sleep(others) }
		a, b := taker{yield: yield, pause: &p}, taker{yield: yield, pause: &p}
		octets := uint64(0)
		look := func(tk *taker) bool { octets++; return tk.again(octets) }
		if !look(&a) || !look(&b) || !look(&a) {
			t.Error("only peers ran, but the next wait was not delayed")
		}
		others++
		if !look(&a) || look(&a) || look(&b) {
			t.Error("waits were delayed more than once for somebody who computes")
		}
		time.Sleep(takerRest - 1)
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
func TestTakerReads(t *testing.T) {
	for _, wait := range []bool{true, false} {
		a, b := tcpPair(t)
		c := Server(b, nil)
		defer c.Close()
		l := c.link.(*tcpLink)
		c.rcv.in.octets = takerMost
		l.taker = taker{pause: new(takerPause), yield: func() {
			if _, err := a.Write(make([]byte, 100)); err != nil {
				t.Error(err)
			}
			// On the loopback interface, what was written has arrived when the write returns.
			if err := b.SetReadDeadline(time.Now().Add(-time.Second)); err != nil { // it need not wait
				t.Error(err)
			}
		}}
		n, err := l.read(c, wait)
		if want := map[bool]int{true: 100}[wait]; n != want || err != nil {
			t.Errorf("wait %v: %d octets, %v; want %d", wait, n, err, want)
		}
	}
}
