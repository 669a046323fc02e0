// Package drive moves octets for a connection: byte streams (Link), an epoll instance that watches idle ones, and
// ticks. It knows no protocol.
package drive
