// Package shared has the lock of what several connections share. A panic that belongs to one connection ends that
// connection; one while such a lock is held ends the process at once, since nobody knows what it leaves behind, and every
// other connection would wait for the lock.
package shared

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
)

// Mutex is a sync.Mutex whose Unlock is always deferred, directly.
type Mutex struct{ mu sync.Mutex }

// Lock locks m.
func (m *Mutex) Lock() { m.mu.Lock() }

// Unlock unlocks m. If it is deferred, and there is a panic, it ends the process.
func (m *Mutex) Unlock() {
	Check(recover())
	m.mu.Unlock()
}

// Check ends the process if v, the result of recover, is not nil. It is for deferred functions that do more than Unlock.
func Check(v any) {
	if v == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "panic: %v\nin what all connections share, so the process ends\n\n%s", v, debug.Stack())
	os.Exit(2) // as after a panic that nobody recovers
}
