// Package crashtest proves that a storage survives crashes: it runs a workload on the
// crash model of package pmem, ends everything at every store, flush and message of
// it, and looks at what recovery finds in every memory that such an end could leave.
//
//	report, err := crashtest.Explore(&crashtest.Script{
//		Size: 1 << 14,
//		Run: func(x *crashtest.Run) error {
//			...                         // stores and flushes on x.Mem
//			x.Sent(1, payload)          // before the first octet of record 1 is stored
//			x.Acked(1)                  // after somebody was told that it is durable
//		},
//		Recover: func(octets []byte) ([]crashtest.Record, error) { ... },
//	}, crashtest.Budget{})
//
// It demands: acknowledged is a part of recovered, recovered is a part of sent, without
// gaps, in order, every payload as it was sent, and none that somebody was told is Gone. What has been taken over elsewhere
// (Applied) need not be recovered. A Violation prints what differs, and the image.
//
// A workload is deterministic and runs in one goroutine; the order of things comes from
// the script, which may draw it from a seed.
package crashtest
