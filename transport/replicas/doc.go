// Package replicas keeps a log at several servers at once. One producer appends to N commit logs; an entry counts
// when it is durable at more than half of them, and then no crash of fewer than half loses or changes it.
//
//	l, err := replicas.Open(ctx, []replicas.Replica{
//		replicas.Push(caller1, "log", secret1, nil),
//		replicas.Push(caller2, "log", secret2, nil),
//		replicas.Push(caller3, "log", secret3, nil),
//	}, nil)
//	index, err := l.Append(ctx, payload)
//
// Open takes over: it fences the producer before it at a majority, makes a new term durable there, takes the log of
// the highest term, among those the longest, completes the others from it and cuts off what they have besides. Only
// then does the term begin. This is the election rule of Raft, with the producer as the only candidate; who
// may become the producer, and when, is for others to decide.
//
// A replica that fails is left out, and completed when it can be reached again. Read returns the entries; a producer
// that has restarted finds its own there. Trim says which entries are not needed any more: Keep, the
// consumer at each server, then releases their room.
//
// # Records
//
// Each replica is a log of these records: an octet for the kind, two numbers of 8 octets, big-endian, and the payload.
//
//	claim 1   a: term                        nobody with a lower one may begin
//	cut   2   a: index                       entries above a never were
//	entry 3   a: index                       payload
//	begin 4   a: term, b: index              up to b this is the log of term a
//	trim  5   a: index, b: term              entries below a are not needed; the log is that of term b
//
// Log is safe for concurrent use.
package replicas
