// Package pushwrite serves push-mode writes (docs/pushfile.md): clients append WRITEs to their own logs
// (package push) under leases on files, and this package applies them.
//
//	pw, err := pushwrite.Open(&pushwrite.Config{Dir: "/var/lib/stag"})
//	srv, err := server.New(&server.Config{Exports: exports, Guard: pw})
//	err = pw.Start(ctx, srv)
//	go pw.Serve(commitListener)
//	ts := &transport.Server{Handler: srv, Config: &transport.Config{Backward: transport.Backward{Credits: 8}}}
//
// # What is promised
//
// Acknowledged records are never dropped, and every NFS operation that begins afterwards sees them. The
// order of one log is kept. Before a second log may write to a file, the first one has been drained.
//
// # How
//
// A lease.Table decides; the goroutines here carry out its decisions: one for each log, which applies
// its records, and one for each recall or fence in progress. A batch of records is written to the files,
// the files are synced, then the records are released, and only then do they count as applied for those
// who wait. So after a crash a record may be written again, but never over a later change. Batches of
// different logs take turns.
//
// A lease is stored in another commit log beside the logs before the client is told about it, because records
// name nothing else. Each lease has two records there, so that damage in one place loses none. After a restart all leases are over, and the records in
// the logs are applied before anything is served.
//
// # When something is wrong
//
// A record that cannot be applied (no room, file gone, no permission anymore) stays, and is tried again
// from time to time; meanwhile operations that would have to see it fail. A record that no client may
// write (with the lease of another log, malformed, beyond the largest file), or that its medium has
// damaged, condemns its log: the log is fenced, and neither this record nor those after it are applied.
// The log stays, so that people can look at it.
//
// Stats names such records and logs, and what to do. Operators do it with Inspect, Discard and GiveUp,
// while no server runs.
package pushwrite
