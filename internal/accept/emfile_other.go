//go:build !unix

package accept

// isOutOfFiles reports whether Accept failed for want of a descriptor.
func isOutOfFiles(error) bool { return false }
