// Package annotate copies a capture and adds comments to its packets, which Wireshark shows and can search
// (frame.comment).
//
// A pcapng file keeps every block as it is, unknown ones too; packets that get a comment have one more
// option, opt_comment, and section headers no longer say how long their sections are. A pcap file becomes
// pcapng with one interface, of the same link type and snap length. Packets, their times and their
// interfaces are unchanged.
//
// The one exception: a Simple Packet Block has no room for options, so one that gets a comment becomes
// an Enhanced Packet Block of interface 0 with time 0.
package annotate
