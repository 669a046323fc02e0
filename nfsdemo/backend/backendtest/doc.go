// Package backendtest is the test suite of file systems behind the backend interface. An
// implementation passes if
//
//	func TestSuite(t *testing.T) { backendtest.Run(t, backendtest.Options{New: newFS}) }
//
// does. Every part works in a directory of its own and leaves it behind.
package backendtest
