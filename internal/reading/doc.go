// Package reading decides who reads a connection, and how input is noticed while nobody does: the callers that wait for
// answers read for themselves, one at a time, and wake the others; a goroutine reads only where there is nobody who waits.
// rdmap and the client of record-marked TCP use it.
//
// [Reader] is the role as a machine, which only decides. [Role] carries out what it decides, on a [Link], for the
// connection, its [Owner]. [Waiter] is somebody who waits. [Ticker] is the clock.
package reading
