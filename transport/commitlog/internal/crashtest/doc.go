// Package crashtest checks that a storage survives crashes. It runs a workload on the crash model
// of package pmem, stops everything at every store, flush and message, and checks what recovery
// finds in every memory that such a crash could leave.
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
// It requires that all acknowledged records are recovered, and only records that were sent: without
// gaps, in order, with the payloads that were sent, and none that is Gone. Records whose effects
// are durable elsewhere (Applied) need not be recovered. A Violation prints the difference and the
// image.
//
// A workload is deterministic and runs in one goroutine. The script chooses the order of
// operations, for example from a seed.
package crashtest
