// Package flush executes the Persists of a memory, for pmem and for its crash model, pmemsim: calls
// share a flush, the first error is final, and one that hangs holds the memory, but not its callers
// for ever. Close waits for callers who are inside.
package flush
