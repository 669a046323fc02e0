package lease

// Kind says what an Action asks the caller to do.
type Kind uint8

// Kinds of actions.
const (
	// Recall: tell the client of Log that it must return Lease.
	Recall Kind = iota + 1
	// Fence: revoke the client's right to write to Log, then call Fenced.
	Fence
	// Drain: apply the records of Log up to Upto now, because others wait; then call Applied.
	Drain
	// Run: run the operation of Ticket, or let it fail with Ticket.Err; then call Done.
	Run
	// Over: forget Lease of Log; it has ended and its records have been applied.
	Over
)

// String returns the name of the constant in lower case.
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
	Log    Log        // of all but Run
	Lease  ID         // of Recall and Over
	Upto   uint64     // of Drain: the last sequence number to apply
	Ticket *Ticket[F] // of Run
}
