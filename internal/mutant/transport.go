package mutant

// The faults of transport.
const (
	StaleBuffer = "stale-buffer" // Response.Buffer is not cleared
)
