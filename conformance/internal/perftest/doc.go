// Package perftest speaks the protocol of perftest (ib_write_bw, ib_read_bw and ib_send_lat with -R), the
// usual RDMA benchmarks, on the engine of package rdmap. It does not measure. It tests streams of Writes, of
// Reads and of Sends against other implementations of iWARP, in both roles.
//
// In a test, as testdata/pcaps/e-perftest.pcap shows, the client makes two connections to the same port. On
// the first one the two sides exchange messages; the client always sends first, and the answer has the same
// length:
//
//	octets  client                          server
//	16      version "6.06"                  the same
//	4 4 2   page, cache line, MTU           the same
//	56      zeros                           zeros
//	        connects a second time
//	56      zeros                           zeros
//	56 ×3   [Dest]: its buffer              Dest: its buffer     ×4 in a latency test
//	        the test, on the second connection
//	56      Dest                            Dest
//	8 ×5    size, count, three results      five results         not in a latency test
//	56      Dest                            Dest
//
// In write_bw and read_bw the client reads or writes the server's buffer and the server
// does nothing; in send_lat every Send is answered by one.
//
// [Dial] is the client, [Server] the server. Against perftest itself, 4.5 of Debian 12:
//
//	ib_write_bw -F -R -d siw_eth0 -p PORT -s SIZE -n N            conformance perftest client write_bw
//	ib_read_bw -F -R -d siw_eth0 -p PORT -s SIZE -n N ADDRESS     conformance perftest server
package perftest
