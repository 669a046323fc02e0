package card

import "runtime"

// The kernel refuses what a thread writes to the files of the CM and of the verbs unless its credentials are the very
// object that opened them (ib_safe_file_access): EACCES. A thread that has acted as a caller of NFS, by setfsuid, has
// another object for ever, even with the same numbers in it, and so have the threads that it clones. So all that is
// written there is written by one thread, which exists before any caller can come. Real cards ring their doorbells in
// mapped memory and ask the kernel nothing, but rxe and siw write for each post: see device.soft.
var pristineCalls = make(chan func())

func init() {
	ready := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(ready)
		for f := range pristineCalls {
			f()
		}
	}()
	<-ready
}

// pristine runs f, which must not wait for anything, there. It costs two switches of threads, some 10 us.
func pristine(f func()) {
	done := make(chan struct{})
	pristineCalls <- func() {
		f()
		close(done)
	}
	<-done
}
