//go:build !unix

package transport

// isOutOfFiles says whether Accept failed for want of a descriptor.
func isOutOfFiles(error) bool { return false }
