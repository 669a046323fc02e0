// Package tshark runs tshark, which shares no code with us, on a capture of iWARP connections.
//
// tshark 4.0 needs help to be right about them; [Judge] gives it:
//
//   - It loses its place in FPDUs that TCP has cut, so it gets the capture rewritten by
//     [Reframe]: one TCP segment per frame.
//   - Reading once, it dissects a reply whose result came by a Write chunk twice, the
//     second time as if the data were inline, where it runs over the end. Reading twice
//     (-2) it puts the data in, but then stumbles over Sends of several FPDUs (a failed
//     assertion of its own). So a complaint counts only if it makes it both times.
//   - A Write chunk carries no XDR roundup (RFC 8166 Section 3.4.6.2), and tshark misses
//     it: complaints about replies whose chunks are not a multiple of
//     four octets do not count.
//   - It goes by the ports of a connection first, and one end has a port that the kernel has
//     chosen (57000 is IRC to tshark). It is told to look at the octets first.
//
// It makes all of these mistakes with captures of Linux talking to Linux; see the tests.
package tshark
