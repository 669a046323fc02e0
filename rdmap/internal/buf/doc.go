// Package buf has the memory of connections: what input is read into (Staging), what output is framed in (Arena, Batch),
// what Sends are kept in (Pool), and queues (Ring). An idle connection holds none of it. Builds with the race detector
// or the tag invariants overwrite what is given back, so that a later use of it is noticed.
package buf
