// Package backendtest is the test suite for implementations of package backend. One passes if
//
//	func TestSuite(t *testing.T) { backendtest.Run(t, backendtest.Options{New: newFS}) }
//
// does. Every part works in a directory of its own, and does not remove it. For tests of clients there is a [Liar].
package backendtest
