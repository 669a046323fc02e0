//go:build !unix

package accept

// isOutOfFiles says whether Accept failed for want of a descriptor.
func isOutOfFiles(error) bool { return false }
