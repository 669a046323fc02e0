// Package machine holds the rules of the commit log: what recovery believes, in which
// order the consumer makes things durable, what the producer may write where and when
// an append is acknowledged. Events in, operations out: no memory is touched but by
// Source, no goroutine is started, no clock is read. Who owns a machine calls it from
// one goroutine at a time.
package machine
