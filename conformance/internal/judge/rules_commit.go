package judge

const commitFormat = "docs/commitlog-format.md"

// commitRules are the rules COMMIT-*: sessions of the commit log.
var commitRules = []*Rule{
	{"COMMIT-001", commitFormat, Must, Error, "The answer that opens a session is plausible: a capacity, mode and hash that exist, head and tail in the ring, an epoch, a next number.", "commitlog 1", 0},
	{"COMMIT-002", commitFormat, Must, Error, "Records follow each other without gaps, from the tail of the answer on.", "commitlog 4", 0},
	{"COMMIT-003", commitFormat, Must, Error, "The number of a record is one more than that of the record before it.", "commitlog 4", 0},
	{"COMMIT-004", commitFormat, Must, Error, "Records have the epoch of their session.", "commitlog 4", 0},
	{"COMMIT-005", commitFormat, Must, Error, "The checksum of a record is right.", "commitlog 4", 0},
	{"COMMIT-006", commitFormat, Must, Error, "A record is not longer than half the ring, and does not cross its end.", "commitlog 4", 0},
	{"COMMIT-007", commitFormat, Must, Error, "A filler reaches to the end of the ring.", "commitlog 4", 0},
	{"COMMIT-008", commitFormat, Must, Error, "The octets that are written, flushed or verified lie in the ring.", "commitlog 5", 0},
	{"COMMIT-009", commitFormat, Must, Error, "The producer writes only where the consumer has released the room.", "commitlog 3", 0},
	{"COMMIT-010", commitFormat, Must, Error, "The tail is a multiple of 64, and grows.", "commitlog 2", 0},
	{"COMMIT-011", commitFormat, Must, Error, "The tail is the end of a record that was written before.", "commitlog 2", 0},
	{"COMMIT-012", commitDraft + " Section 3.1", Must, Error, "The tail is stored after the flush of all records before it.", "commitlog 5", 0},
	{"COMMIT-013", commitFormat, Must, Error, "In strict mode the flush of the tail follows before anything else is written.", "commitlog 5", 0},
	{"COMMIT-014", commitDraft + " Section 3.1", Must, Error, "In a session on persistent memory, flushes are for persistence.", "commitlog 5", 0},
	{"COMMIT-015", commitFormat, Must, Error, "The tail word is stored by an Atomic Write at offset 0, and nothing writes to it or to the head.", "commitlog 2", 0},
	{"COMMIT-016", commitFormat, Must, Error, "The head that the consumer publishes is a multiple of 64, does not shrink, and is not beyond the tail.", "commitlog 3", 0},
}
