// Package rdmaptest is a kit for tests of rdmap and of what is built on it: a pair
// of buffered in-memory connections, connections that cut the octet stream into odd
// pieces, a recorder, and a stub peer that speaks raw FPDUs.
//
// Nothing here touches the network. The connections work inside testing/synctest
// bubbles: everything that blocks does so on channels and timers.
package rdmaptest
