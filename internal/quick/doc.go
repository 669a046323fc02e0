// Package quick makes system calls that cannot wait without telling Go's scheduler.
//
// An ordinary call tells it. If the process was idle a moment before, as a server is between two calls of one client, that
// wakes the monitor thread of the runtime, which then looks every 20 microseconds and may take the processor away: 93 of
// 100 futex calls of a server were that, and a WRITE of 64 KiB over RDMA is 1.3 to 1.5 times as fast without (two
// processors, one call at a time). One ordinary call in the path of a call is enough to lose all of it.
//
// What waits in a call of this package keeps its processor, and with it the collector of garbage, which has to stop all of
// them. So only these are here: calls on descriptors that do not block; those that look at what memory holds; and those
// that the kernel itself gives up when they would have to wait (RWF_NOWAIT). A copy of 1 MiB takes some 100
// microseconds.
//
// Under the race detector the calls are those of package syscall, which tell it that what happens before a write happens
// before what the receiver of the octets does. Other systems than Linux have ordinary calls.
package quick
