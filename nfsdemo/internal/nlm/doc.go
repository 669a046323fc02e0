// Package nlm holds the Network Lock Manager protocol (The Open Group, Protocols for Interworking: XNFS,
// Version 3W, chapters 10 and 14): constants, and the codec of arguments and results, in both directions, of versions 1
// and 3, whose offsets have 32 bits, and 4, whose offsets have 64.
//
//	proc    name                     arguments    results
//	1, 6    TEST, TEST_MSG           TestArgs     TestRes
//	2, 7    LOCK, LOCK_MSG           LockArgs     Res
//	3, 8    CANCEL, CANCEL_MSG       CancelArgs   Res
//	4, 9    UNLOCK, UNLOCK_MSG       UnlockArgs   Res
//	5, 10   GRANTED, GRANTED_MSG     TestArgs     Res
//	11-15   *_RES                    the results of the _MSG calls
//	20, 21  SHARE, UNSHARE           ShareArgs    ShareRes
//	22      NM_LOCK                  LockArgs     Res
//	23      FREE_ALL                 FreeAllArgs  void
//
// A _MSG call has no results; these come as a call of the _RES procedure in the other direction. Everything that Parse
// returns is a view of its input.
package nlm
