// Package mount3 holds the MOUNT version 3 protocol (RFC 1813 Appendix I): constants, types
// and the codec of arguments and results, in both directions, with the rules of package nfs3.
//
//	proc  name     arguments     results
//	0     NULL     void          void
//	1     MNT      PathArgs      MountRes
//	2     DUMP     void          DumpRes
//	3     UMNT     PathArgs      void
//	4     UMNTALL  void          void
//	5     EXPORT   void          ExportRes
//
// Versions 1 and 2 have the same numbers and messages, but for the result of MNT: a handle of 32 octets, which is not
// implemented.
package mount3
