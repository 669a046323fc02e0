// Package page draws a capture as one self-contained HTML page: no network, no fonts, no second file.
// For each connection it shows a ladder: two lanes, an arrow per message in the order in which the messages were
// complete, coloured by the XID that they serve, the credits underneath, and the violations that a judge
// found, each at its place.
//
// A [Builder] takes the events of a capture (package decode), and at the end what the judge found in them:
//
//	p, j := page.New("trace.pcap", nil), judge.NewBuilder(nil)
//	for ev, err := range decode.Events(file, nil) {
//		...
//		p.Event(ev)
//		j.Event(ev)
//	}
//	err := p.Write(out, j.Report())
//
// # What is an arrow
//
// An MPA startup frame, an untagged message, or a run of tagged segments up to the one with the
// L bit: an RDMA Write of 1 MiB in 735 FPDUs is one arrow that says so. Octets that could not
// be decoded and the end of a stream are arrows too. Connections that are not MPA have none.
//
// # Bounds
//
// [Options] bounds what is kept, whatever the capture says: the number of messages, the
// octets shown of each, the size of all. The page says what it leaves out.
//
// # Safety
//
// All text of the page comes from packets. It travels as JSON in which "<", ">" and "&" are
// escaped, the script writes it with textContent only, and the page's own policy
// (Content-Security-Policy) allows no script but the embedded one, by its hash, or judge.js of its folder.
package page
