// Package lockd is a lock manager: it serves NLM, and as much of NSM as that
// needs, for the files of a [server.Server].
//
// A client is the pair of an address and the name that the client gives itself. What it locks goes to the
// file system if that is a [backend.Locker], else to the memory of this process. A lock that has to wait is
// a block: it ends when the client is told by GRANTED, when the client asks again and gets the lock, when it
// cancels, or when it goes.
//
// Nobody can tell a client that is slow from one that is gone, so locks end in four ways only: UNLOCK,
// FREE_ALL, the NOTIFY by which a client says that it has started again, and the end of this process. For
// the last, Server keeps the names of its clients in a file. When it starts again, it tells them, and for
// a while it gives locks only to those who held them before.
package lockd
