// Package annotate writes a capture again with comments on its packets, which Wireshark shows
// (frame.comment) and finds.
//
// A pcapng file keeps every block as it is, the unknown ones too; the packets that get a comment
// get an option opt_comment more, and the section headers no longer say how long their
// sections are. A pcap file becomes pcapng with one interface, of the same link type and snap
// length. Packets, their times and their interfaces stay what they were.
//
// The one exception: a Simple Packet Block has no room for options, so one that gets a comment becomes
// an Enhanced Packet Block of interface 0 with time 0.
package annotate
