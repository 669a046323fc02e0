// Package judge says which rules of the RFCs a captured iWARP connection breaks: MPA (RFC 5044, RFC 6581),
// DDP (RFC 5041), RDMAP (RFC 5040, RFC 7306, the commit draft), RPC-over-RDMA (RFC 5666, RFC 8166, RFC
// 8797), and the protocols above.
//
//	r, err := judge.File(f)
//	if err != nil {
//		return err // no capture, or a damaged one
//	}
//	for _, v := range r.Violations {
//		fmt.Println(v) // DDP-005 conn 1 > frame 17: MSN 4 on queue 0, expected 3
//	}
//
// [Check] does it in a test. Each rule has an ID whose meaning never changes, the RFC section from which it
// comes, and one sentence: see [Rules].
//
// A judge reports only what the capture proves. What the capture lacks (missing octets, a beginning that was
// not recorded, a frame with a bad CRC) puts the direction in doubt, and from then on rules that need the
// whole past of a direction are silent; [Report] says so.
//
// Memory is bounded whatever the capture holds. Captures may be judged in separate goroutines.
package judge
