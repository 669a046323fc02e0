// Package mount3 holds the MOUNT version 3 protocol (RFC 1813 Appendix I): constants, types
// and the codec of arguments and results, in both directions. It works like package nfs3: every
// message has Append(b) and Parse(d), with the same rules for memory.
//
//	proc  name     arguments     results
//	0     NULL     void          void
//	1     MNT      PathArgs      MountRes
//	2     DUMP     void          DumpRes
//	3     UMNT     PathArgs      void
//	4     UMNTALL  void          void
//	5     EXPORT   void          ExportRes
//
// MOUNT version 1 (fixed 32-octet handles) is not implemented.
package mount3
