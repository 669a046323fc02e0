// Package judge says which rules of the RFCs a captured connection of iWARP or RoCE breaks: MPA (RFC 5044, RFC 6581),
// DDP (RFC 5041), RDMAP (RFC 5040, RFC 7306, the commit draft), RPC-over-RDMA (RFC 5666, RFC 8166, RFC
// 8797), and the protocols above.
//
// Package [github.com/stag-rdma/stag/conformance/internal/decode] says what is there; this one says whether it is
// allowed. Each rule has an ID whose meaning never changes, the RFC section from which it comes, and one
// sentence: see [Rules]. [Sentences] goes the other way: from the sentences of the documents to the rules
// that judge them, or to the reason why a trace cannot show them.
//
// # Model
//
// A [Judge] takes the events of one capture in order. Each connection has a handful of small machines,
// one per concern (startup, queues, reads, terminates, ...), each in its own file; every event
// goes through all of them, the lowest layer first. A frame that a lower layer has found
// to break a rule is not judged by the ones above it, so that one mistake is one violation.
//
// A judge reports only what the capture proves. What the capture lacks (missing octets, a beginning that was
// not recorded, a frame with a bad CRC) puts the direction in doubt, and from then on rules that need the
// whole past of a direction are silent. [Report] says so.
//
// # Bounds
//
// Memory per connection is bounded: 64 KiB for the headers a Terminate may quote, 4096 unanswered RPC calls and
// 16384 segments of their chunks per direction, 4096 records of a commit log after its tail, and what [Options] says.
// Nothing here reads a clock, and nothing is safe for concurrent use; separate captures may be
// judged in separate goroutines.
package judge
