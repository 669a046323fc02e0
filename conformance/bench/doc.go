// Package bench measures the engine and the transport as ratios to what plain
// TCP does on the same machine in the same run, and fails below stated gates.
//
// Absolute numbers say more about the machine than about the program, so every
// figure is a ratio of two medians. The two sides alternate round by round, use
// the same congestion control (reno: the default of some systems paces the
// loopback interface) and are printed with their minimum and maximum. Bulk runs
// on one processor (GOMAXPROCS=1), which repeats to a few percent; latency runs
// between two processes, since a hand-over between goroutines of one process
// hides what it costs between two.
//
// [Engine] compares RDMA Write and Read of 1 MiB with writes of 1 MiB on a TCP
// connection, and Sends of 64 octets with records of as many. [RPC] compares a Send
// that is answered and a NULL call with a TCP ping-pong of as many octets, 64 callers
// on one connection with record-marked ONC RPC over TCP that spends a goroutine on
// every request, and an echo of 1 MiB by chunks with one in records; it also weighs
// idle connections.
//
// [Scale] is about many connections and how they share, [Commit] about appends to a commit log, and [Grow]
// draws cost against size. The commands are those of `conformance bench`.
package bench
