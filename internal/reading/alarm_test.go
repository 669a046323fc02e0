package reading

import (
	"runtime"
	"testing"
	"time"
)

// TestAlarm: an alarm goes off once each time that it is set. TestMain notices if a resting one leaves
// something behind.
func TestAlarm(t *testing.T) {
	for name, process := range map[string]bool{"of the process": true, "of a connection": false} {
		t.Run(name, func(t *testing.T) {
			rang := make(chan struct{}, 4)
			a := newAlarm(process, time.Millisecond, func() { rang <- struct{}{} })
			if _, other := a.(timer); process && other == (runtime.GOOS == "linux") {
				t.Errorf("it is a %T", a)
			}
			for range 3 {
				<-rang
				a.set(time.Millisecond)
			}
			<-rang
			time.Sleep(5 * time.Millisecond) // time for one that repeats to go off again
			if len(rang) > 0 {
				t.Error("it goes off more often than it was set")
			}
			a.rest()
		})
	}
}
