// Package machine holds the format and the rules of the commit log: where things are, what recovery trusts, in which
// order the consumer makes things durable, what the producer may write where, and when an append is
// acknowledged. Events go in, operations come out: memory is touched only through Source, no
// goroutine is started, no clock is read. So the crash models can run it with every crash there is. The owner of a
// machine calls it from one goroutine at a time.
//
// All numbers are big-endian. Positions count ring octets and never wrap; position p is at RingOff
// + p mod capacity. docs/commitlog-format.md describes the format in prose.
package machine
