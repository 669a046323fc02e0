// Package pushwrite serves push-mode writes (docs/pushfile.md): clients append WRITEs to
// logs of their own (package push), under leases on files, and this package applies them.
//
//	pw, err := pushwrite.Open(&pushwrite.Config{Dir: "/var/lib/stag"})
//	srv, err := server.New(&server.Config{Exports: exports, Guard: pw})
//	err = pw.Start(ctx, srv)
//	go pw.Serve(commitListener)
//	ts := &transport.Server{Handler: srv, Config: &transport.Config{BackwardCredits: 8}}
//
// # What is promised
//
// What a log has acknowledged is never dropped, and every NFS operation that begins
// afterwards sees it. The order of one log is kept. Two logs never write to the same file
// without the first having been drained.
//
// # How
//
// The decisions are those of a lease.Table; here are the goroutines that carry them out:
// one for each log, which applies its records, one for each recall or fence that is under
// way. A batch of records is written to the files, the files are synced, then the records
// are released, and only then are they applied for those who wait: after a crash a record
// may be written again, but never over a later change. Batches of different logs take
// turns.
//
// Leases are kept in a file beside the logs before they are answered, since records name
// nothing else; each stands there twice, and what a crash has torn at the end was told to
// nobody and is dropped. After a restart all of them are over, and what the logs hold is applied
// before anything is served.
//
// # When something is wrong
//
// A record that cannot be applied (no room, file gone, no permission any more) stays, and is
// tried again from time to time; meanwhile operations that would have to see it fail. A
// record that no client may write (a lease that is not its log's, malformed, beyond the
// largest file), or that its medium has damaged, condemns its log: it is fenced, and from
// that record on nothing of it is applied. The log stays for people to look at.
//
// Stats names such records and logs, and what to do. Inspect, Discard and GiveUp are for those who do
// it, while no server runs.
package pushwrite
