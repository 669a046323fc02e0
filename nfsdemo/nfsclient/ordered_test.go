package nfsclient_test

// failWriter fails every Write.
type failWriter struct{ err error }

func (f failWriter) Write([]byte) (int, error) { return 0, f.err }
