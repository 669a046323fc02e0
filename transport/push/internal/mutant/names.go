package mutant

// The faults.
const (
	AckBeforeFlush = "ack-before-flush" // a Flush of a log is answered, and nothing is made durable
)

// Names are all of them.
var Names = []string{AckBeforeFlush}
