package mutant

// The fault of transport/push.
const (
	AckBeforeFlush = "ack-before-flush" // a Flush of a log is answered, and nothing is made durable
)
