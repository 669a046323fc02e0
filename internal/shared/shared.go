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

// Mutex is a sync.Mutex whose Unlock is always deferred, directly, or left to With and Without.
type Mutex struct{ mu sync.Mutex }

// Lock locks m.
func (m *Mutex) Lock() { m.mu.Lock() }

// TryLock locks m if nobody else has.
func (m *Mutex) TryLock() bool { return m.mu.TryLock() }

// Unlock unlocks m. If it is deferred, and there is a panic, it ends the process.
func (m *Mutex) Unlock() {
	Check(recover())
	m.mu.Unlock()
}

// With calls fn with m locked.
func (m *Mutex) With(fn func()) {
	m.Lock()
	defer m.Unlock()
	fn()
}

// Without calls fn with m, which is locked, unlocked meanwhile.
func (m *Mutex) Without(fn func()) {
	m.mu.Unlock()
	defer m.mu.Lock() // also in a panic: whoever has locked m ends the process
	fn()
}

// RWMutex is Mutex with readers.
type RWMutex struct{ mu sync.RWMutex }

// Lock locks m for writing.
func (m *RWMutex) Lock() { m.mu.Lock() }

// Unlock is [Mutex.Unlock].
func (m *RWMutex) Unlock() {
	Check(recover())
	m.mu.Unlock()
}

// RLock locks m for reading.
func (m *RWMutex) RLock() { m.mu.RLock() }

// RUnlock undoes RLock, and is [Mutex.Unlock] otherwise.
func (m *RWMutex) RUnlock() {
	Check(recover())
	m.mu.RUnlock()
}

// Check ends the process if v, the result of recover, is not nil. It is for deferred functions that do more than Unlock.
func Check(v any) {
	if v == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "panic: %v\nin what all connections share, so the process ends\n\n%s", v, debug.Stack())
	os.Exit(2) // as after a panic that nobody recovers
}
