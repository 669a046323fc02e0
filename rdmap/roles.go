package rdmap

// writerState says who writes to a link.
type writerState uint8

// The states of a writer.
const (
	// writeIdle: nobody. Left by Begin: whoever queues something, and finds it so, writes it.
	writeIdle writerState = iota
	// writeBusy: a poster, a reader or an executor writes, each of which has something else to do. Left by End when nothing
	// is queued, by Block when it would have to wait or has written enough for others.
	writeBusy
	// writeBlocked: a goroutine of its own writes, which may wait for room in the socket. Left by End.
	writeBlocked
)

// writer is the writing role of a connection, which one goroutine at a time has: it writes what everybody has queued.
// The caller holds the lock that guards the queue.
type writer struct {
	state  writerState
	corked bool          // input is being handled: its reader writes what that has queued, all at once
	rest   chan struct{} // made by whoever waits for the writer to rest; closed then
}

// Idle reports whether nobody writes.
func (w *writer) Idle() bool { return w.state == writeIdle }

// Rests reports whether nobody writes or is about to.
func (w *writer) Rests() bool { return w.state == writeIdle && !w.corked }

// Begin makes the caller the writer. Nobody may be.
func (w *writer) Begin() { w.state = writeBusy }

// Block says that the caller starts a goroutine that goes on.
func (w *writer) Block() { w.state = writeBlocked }

// End says that there is nothing left to write.
func (w *writer) End() {
	w.state = writeIdle
	w.Rested()
}

// Cork makes posters leave what they queue to the caller, who handles input.
func (w *writer) Cork() { w.corked = true }

// Uncork ends that. The caller then writes; if there is nothing to write, it calls Rested.
func (w *writer) Uncork() { w.corked = false }

// Corked reports whether input is being handled.
func (w *writer) Corked() bool { return w.corked }

// Rest returns a channel that is closed when the writer rests next. It is nil if it rests now.
func (w *writer) Rest() <-chan struct{} {
	if w.Rests() {
		return nil
	}
	if w.rest == nil {
		w.rest = make(chan struct{})
	}
	return w.rest
}

// Rested tells those who wait for it if the writer rests.
func (w *writer) Rested() {
	if w.rest != nil && w.Rests() {
		close(w.rest)
		w.rest = nil
	}
}
