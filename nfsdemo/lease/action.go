package lease

// Kind says what an Action asks for.
type Kind uint8

// What a Table asks its caller to do.
const (
	// Recall: tell the client of Log that it must return Lease.
	Recall Kind = iota + 1
	// Fence: revoke what the client of Log may write to; then say Fenced.
	Fence
	// Drain: apply the records of Log up to Upto now, others are waiting; say Applied.
	Drain
	// Run: the operation of Ticket may run, or fails with its Err; then say Done.
	Run
	// Over: Lease of Log is over, and its records have been applied: forget it.
	Over
)

// String is the word of the constant, in lower case.
func (k Kind) String() string {
	switch k {
	case Recall:
		return "recall"
	case Fence:
		return "fence"
	case Drain:
		return "drain"
	case Run:
		return "run"
	case Over:
		return "over"
	}
	return "unknown"
}

// Action is what the caller of a Table must do.
type Action[F comparable] struct {
	Kind   Kind
	Log    Log        // but for Run
	Lease  ID         // of Recall and Over
	Upto   uint64     // of Drain: a sequence number
	Ticket *Ticket[F] // of Run
}
