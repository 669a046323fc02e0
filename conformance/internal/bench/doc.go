// Package bench measures the engine and the transport as ratios to plain TCP on the same machine in the same
// run, and fails below stated gates.
//
// Absolute numbers say more about the machine than about the program, so every figure is a ratio of two
// medians. The two sides alternate round by round, use the same congestion control (reno: the default of
// some systems paces the loopback interface) and are printed with their minimum and maximum. Bulk runs on
// one processor (GOMAXPROCS=1), which repeats to a few percent; latency is measured between two processes,
// since a hand-over between goroutines of one process hides the cost of one between processes.
//
// [Engine] compares RDMA Write and Read of 1 MiB with writes of 1 MiB on a TCP connection, and Sends of 64
// octets with records of the same size. [RPC] compares a Send with its answer, and a NULL call, with a TCP
// ping-pong of as many octets; 64 callers on one connection with record-marked ONC RPC over TCP that spends
// a goroutine on every request; and an echo of 1 MiB by chunks with one in records. It also measures the
// memory of idle connections.
//
// [Scale] measures many connections and how they share, [Commit] appends to a commit log, and [Grow] cost
// against size. The commands are in `conformance bench`.
package bench
