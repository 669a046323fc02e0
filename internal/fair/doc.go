// Package fair decides which of the replies that a server keeps have to make room for others.
// Replies belong to clients, and several clients may share one address. The oldest reply of all
// goes first; but when an address has more than its share, the client there that has the most
// replies loses its oldest one. A slow client thus loses no reply to faster ones behind the same
// address.
//
// It performs no I/O and knows no time. Every operation takes constant time, or the logarithm of
// the number of clients at one address.
package fair
