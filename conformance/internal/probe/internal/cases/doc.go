// Package cases holds what conformance probe sends to a live peer and which answers it accepts: octets and
// expectations, without a connection or a clock.
//
// [Table] returns the cases. Each has one or more tries, which are played on separate connections: an MPA
// Request, steps, and wanted answers. A [Watcher] receives what the peer says, and answers its RDMA Reads as
// the try demands; in the end [Try.Judge] gives the verdict.
package cases
