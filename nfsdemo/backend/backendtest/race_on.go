//go:build race

package backendtest

// Race says that the race detector is there. A test that does one thing a million times shows it nothing new, and takes
// ten times as long: it goes without.
const Race = true
