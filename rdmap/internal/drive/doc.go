// Package drive moves octets for a connection: byte streams (Link), an epoll instance that watches idle ones, ticks
// (Ticker), and the tables of who reads and who writes (Reader, Writer). It knows no protocol.
package drive
