// Package window puts the memory of a commit log between the log and its producer: the
// peer reaches the ring, the tail word and the published head, each with rights of its
// own, and the log learns when the tail moves or is flushed. The first error of the
// memory is final.
package window
