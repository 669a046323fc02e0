// Package cases says what conformance probe sends to a live peer and which answers it
// takes: octets and expectations, without a connection or a clock.
//
// [Table] returns the cases. Each has one or more tries, each of which is played on a
// connection of its own: an MPA Request, steps, and wants. A [Watcher] is shown what
// the peer says, answers its RDMA Reads as the try wants it, and in the end
// [Try.Judge] says what it was.
package cases
