#!/bin/sh
# Counts what tshark finds in every capture of pcaps/ and writes tshark-counts.tsv beside this
# script: capture, what, how often. Run it again when a capture is added:
#
#	apt-get install tshark && conformance/testdata/tshark-counts.sh
#
# The table in the tree was made with TShark 4.0.17. Where it differs from what the decoder
# finds, tshark-exceptions.tsv says why.
#
# Per capture there is one call of tshark, printed fields being all occurrences in a packet:
#
#	mpa.req mpa.rep mpa.fpdu   MPA Requests, Replies, FPDUs
#	opcode.0x03                RDMAP opcodes, per FPDU
#	rc.0x04                    opcodes of reliable connections of InfiniBand, per packet, but acknowledgements
#	msg_type.0                 RPC-over-RDMA message types: 0 RDMA_MSG, 1 RDMA_NOMSG, 3 RDMA_DONE, 4 RDMA_ERROR
#	errcode.1                  RDMA_ERROR: 1 ERR_VERS, 2 ERR_CHUNK
#	chunk.read                 segments in Read lists
#	chunk.write                Write chunks
#	chunk.reply                Reply chunks
#	handle                     RDMA segments of all three kinds
#	rpc.0 rpc.1                RPC calls, replies
#	nfs3.6                     NFSv3 calls and replies by procedure number
set -eu
cd "$(dirname "$0")"
for f in pcaps/*.pcap; do
	tshark -r "$f" -T fields -E occurrence=a -E aggregator=, -E separator=/t \
		-e iwarp_mpa.req -e iwarp_mpa.rep -e iwarp_mpa.fpdu -e iwarp_rdma.opcode \
		-e rpcordma.msg_type -e rpcordma.errcode \
		-e rpcordma.reads_count -e rpcordma.writes_count -e rpcordma.reply_count -e rpcordma.rdma_handle \
		-e rpc.msgtyp -e nfs.procedure_v3 -e infiniband.bth.opcode 2>/dev/null |
		awk -F'\t' -v name="$(basename "$f")" '
		function each(col, key,    n, v, i) { n = split($col, v, ","); for (i = 1; i <= n; i++) count[key (key ~ /\.$/ ? v[i] : "")]++ }
		function sum(col, key,    n, v, i) { n = split($col, v, ","); for (i = 1; i <= n; i++) if (v[i] > 0) count[key] += v[i] }
		{
			each(1, "mpa.req"); each(2, "mpa.rep"); each(3, "mpa.fpdu"); each(4, "opcode.")
			each(5, "msg_type."); each(6, "errcode.")
			sum(7, "chunk.read"); sum(8, "chunk.write"); sum(9, "chunk.reply"); each(10, "handle")
			each(11, "rpc."); each(12, "nfs3.")
			if ($13 != "" && $13 < 32 && $13 != 17) count[sprintf("rc.0x%02x", $13)]++
		}
		END { for (k in count) printf "%s\t%s\t%d\n", name, k, count[k] }' | LC_ALL=C sort
done >tshark-counts.tsv
