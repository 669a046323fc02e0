// Package window gives the producer access to the memory of a commit log: the peer can reach the
// ring, the tail word and the published head, each with separate rights, and the log is told when
// the tail moves or is flushed. The first error of the memory is final.
package window
