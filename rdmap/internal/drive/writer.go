package drive

// WriterState says who writes to a link.
type WriterState uint8

// The states of a Writer.
const (
	Idle    WriterState = iota // nobody; left by Begin
	Writing                    // a poster, a reader or an executor; left by Block, End
	Blocked                    // a goroutine of its own, which may wait for room in the socket; left by End
)

// Writer is the writing role of a connection, which one goroutine at a time has: it writes what everybody has queued.
// The caller holds the lock that guards the queue.
type Writer struct {
	state  WriterState
	corked bool          // input is being handled: its reader writes what that has queued, all at once
	rest   chan struct{} // made by whoever waits for the writer to rest; closed then
}

// Idle reports whether nobody writes.
func (w *Writer) Idle() bool { return w.state == Idle }

// Rests reports whether nobody writes or is about to.
func (w *Writer) Rests() bool { return w.state == Idle && !w.corked }

// Begin makes the caller the writer. Nobody may be.
func (w *Writer) Begin() { w.state = Writing }

// Block says that the caller starts a goroutine that goes on.
func (w *Writer) Block() { w.state = Blocked }

// End says that there is nothing left to write.
func (w *Writer) End() {
	w.state = Idle
	w.Rested()
}

// Cork makes posters leave what they queue to the caller, who handles input.
func (w *Writer) Cork() { w.corked = true }

// Uncork ends that. The caller then writes; if there is nothing to write, it calls Rested.
func (w *Writer) Uncork() { w.corked = false }

// Corked reports whether input is being handled.
func (w *Writer) Corked() bool { return w.corked }

// Rest returns a channel that is closed when the writer rests next. It is nil if it rests now.
func (w *Writer) Rest() <-chan struct{} {
	if w.Rests() {
		return nil
	}
	if w.rest == nil {
		w.rest = make(chan struct{})
	}
	return w.rest
}

// Rested tells those who wait for it if the writer rests.
func (w *Writer) Rested() {
	if w.rest != nil && w.Rests() {
		close(w.rest)
		w.rest = nil
	}
}
