// Package machine holds the rules of the commit log: what recovery trusts, in which order the
// consumer makes things durable, what the producer may write where, and when an append is
// acknowledged. Events go in, operations come out: memory is touched only through Source, no
// goroutine is started, no clock is read. The owner of a machine calls it from one goroutine at a
// time.
package machine
