// Package drive runs connections. A Driver has the goroutines, locks and timers of one, and decides who reads and who
// writes. What is read it passes to the machines of package engine, which say what there is to write.
//
// The tables of who reads and who writes (Reader, Writer) only decide. Byte streams (Link), an epoll instance that watches
// idle ones, and ticks (Ticker) know no protocol.
package drive
